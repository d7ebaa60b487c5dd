"""Run mlgen of this checkout: python -I run.py PACKAGES ARGUMENT...

PACKAGES is the folder with its dependencies. With -I, Python reads neither the working folder,
which belongs to a pull request, nor the variables PYTHON*.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2]), sys.argv.pop(1)]
    sys.argv[0] = "mlgen"

    from mlgen.__main__ import main

    main()
