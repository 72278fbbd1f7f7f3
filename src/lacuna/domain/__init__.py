"""Domains: a folder with everything that an adapted translator needs, and the work that makes one."""

from lacuna.domain.adaptation import adapt
from lacuna.domain.domain_folder import Domain, memory_of, open_domain, read_system_record
from lacuna.domain.manifest import DomainManifest

__all__ = ["Domain", "DomainManifest", "adapt", "memory_of", "open_domain", "read_system_record"]
