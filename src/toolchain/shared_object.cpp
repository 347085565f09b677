#include "toolchain/shared_object.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "toolchain/process.h"

namespace braze::toolchain {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);

class Checker {
 public:
  Checker(int file, uint64_t size) : file_(file), size_(size) {}

  std::string damage() const {
    Header header;
    if (!read(0, &header, sizeof header)) return "it is too short";
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN)
      return "it is no shared library";
    std::vector<Segment> segments;
    std::vector<Section> sections;
    if (!read_table(header.e_phoff, header.e_phnum, header.e_phentsize, segments) ||
        !read_table(header.e_shoff, header.e_shnum, header.e_shentsize, sections))
      return cut_short();
    bool loads = false, is_dynamic = false;
    for (const Segment& segment : segments) {
      loads |= segment.p_type == PT_LOAD;
      is_dynamic |= segment.p_type == PT_DYNAMIC;
      if (!holds(segment.p_offset, segment.p_filesz)) return cut_short();
    }
    for (const Section& section : sections)
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
          !holds(section.sh_offset, section.sh_size))
        return cut_short();
    return loads && is_dynamic ? "" : "it is no shared library";
  }

 private:
  std::string cut_short() const {
    return "it ends after " + std::to_string(size_) + " bytes, in the midst of what it holds";
  }
  bool holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }
  bool read(uint64_t offset, void* target, size_t bytes) const {
    return holds(offset, bytes) &&
           ::pread(file_, target, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }
  // A library may come without sections.
  template <class Entry>
  bool read_table(uint64_t offset, size_t count, size_t entry_size,
                  std::vector<Entry>& table) const {
    if (count == 0) return true;
    if (entry_size != sizeof(Entry)) return false;
    table.resize(count);
    return read(offset, table.data(), count * sizeof(Entry));
  }

  int file_;
  uint64_t size_;
};

}  // namespace

std::string damage_of(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "it is no file";
  return Checker(file.get(), static_cast<uint64_t>(status.st_size)).damage();
}

}  // namespace braze::toolchain
