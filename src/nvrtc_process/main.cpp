// The program that compiles CUDA C++ beside the extension (toolchain/nvrtc_process.h).
#include <malloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "toolchain/nvrtc_process.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  // What else the other process has open without the flag that closes it here: pipes whose readers
  // would wait for this process, too.
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  // A process of seconds keeps its memory: giving it back and taking it anew is a tenth of the
  // time.
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  // Without destructors: a thread looks at the channel.
  ::_exit(braze::toolchain::serve_nvrtc(STDIN_FILENO, arguments[1]));
}
