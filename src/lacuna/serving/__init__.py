"""HTTP server: an API for translations and explanations, the LibreTranslate interface, and a web page."""

from lacuna.serving.app import create_app, serve
from lacuna.serving.limits import ServerLimits
from lacuna.serving.service import Engine

__all__ = ["Engine", "ServerLimits", "create_app", "serve"]
