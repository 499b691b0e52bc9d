"""`python -m convlog`."""

from convlog.cli import main

if __name__ == "__main__":
    main()
