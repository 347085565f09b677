# CPython's own test modules for the given interpreter: as found, else from the system's packages where
# that is allowed (Debian splits them off). Where neither works the suite says that it was not run.
"$1" -c 'import test.test_list' 2>/dev/null && exit 0
package=$("$1" -c 'import sys; print("libpython%d.%d-testsuite" % sys.version_info[:2])')
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update && apt-get install -y --no-install-recommends "$package"; } >/dev/null 2>&1
fi
exit 0
