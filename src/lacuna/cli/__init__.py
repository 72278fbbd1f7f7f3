"""The command line: each verb parses, calls one function of the library, and renders what it returns."""

# The exit code after Ctrl-C.
INTERRUPTED = 130
