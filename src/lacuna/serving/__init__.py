"""HTTP server: an API for translations and explanations, the LibreTranslate interface, and a web page."""

from lacuna.serving.access import Access
from lacuna.serving.app import create_app, serve
from lacuna.serving.engine import Engine
from lacuna.serving.limits import ServerLimits

__all__ = ["Access", "Engine", "ServerLimits", "create_app", "serve"]
