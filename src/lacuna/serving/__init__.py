"""Translations and their reasons over HTTP: an API, the shape that LibreTranslate clients use, and a web page."""

from lacuna.serving.app import create_app
from lacuna.serving.engine import Engine
from lacuna.serving.limits import Limits
from lacuna.serving.running import serve

__all__ = ["Engine", "Limits", "create_app", "serve"]
