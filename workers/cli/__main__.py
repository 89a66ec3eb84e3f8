"""`python -m placet.cli`."""

from .main import main

main()
