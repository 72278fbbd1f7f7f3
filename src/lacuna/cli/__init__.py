"""The command line: each verb parses, calls one function of the library, and renders what it returns."""
