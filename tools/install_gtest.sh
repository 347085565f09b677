# GoogleTest for the C++ tests: as found, else from the system's packages where that is allowed. Where
# neither works CMake fetches it.
for folder in /usr/include /usr/local/include; do
  [ -e "$folder/gtest/gtest.h" ] && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update && apt-get install -y libgtest-dev; } >/dev/null 2>&1
fi
exit 0
