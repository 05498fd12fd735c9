"""``python -m offpolicy_bench``: the command without the library's command line."""

from offpolicy_bench.command import main

if __name__ == "__main__":
    raise SystemExit(main())
