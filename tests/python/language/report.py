"""Lists the cases of the language suite that break, with the reasons.

python tests/python/language/report.py [family ...]
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import running
import torch

if __name__ == "__main__":
    whole = total = 0
    with torch.no_grad():
        for family in sys.argv[1:] or running.families():
            for name in running.names(family):
                total += 1
                try:
                    _, reasons = running.run(family, name)
                except AssertionError as error:
                    print(f"{family}-{name}: DIFFERS {str(error)[:2000]}")
                    continue
                whole += not reasons
                if reasons:
                    print(f"{family}-{name}: " + "; ".join(dict.fromkeys(reasons)))
    print(f"{whole} of {total} without a break")
