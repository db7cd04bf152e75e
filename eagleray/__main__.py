"""`python -m eagleray`: the command line."""

from eagleray.cli import main

if __name__ == "__main__":
    main()
