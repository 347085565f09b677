# Prints the first interpreter that Braze can be built with: 3.11 to 3.13, with venv and headers.
for name in python3.12 python3.11 python3.13 python3 python; do
  if "$name" - >/dev/null 2>&1 <<'PROGRAM'
import ensurepip, os, sys, sysconfig, venv  # noqa: E401, F401
right = (3, 11) <= sys.version_info[:2] <= (3, 13)
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(0 if right and os.path.exists(header) else 1)
PROGRAM
  then
    echo "$name"
    exit 0
  fi
done
