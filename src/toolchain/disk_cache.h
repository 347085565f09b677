// Content-addressed files that outlive the process and are shared by many.
//
// <folder>/v1/<kind>/<hash of the key>: the bytes, then a trailer of 32 bytes (mark, length, hash
// of the bytes). A shared library with a trailer is still one, so entries can be opened by dlopen.
// * Written to a temporary file and renamed: a reader sees a whole entry or none.
// * An entry whose trailer does not fit is a miss and is removed.
// * Modification times are times of last use; when the folder grows over the limit, the entries
//   unused for longest go, down to four fifths of it.
// * Folders are made with mode 0700, files with 0600. A folder or entry that somebody else owns or
//   may write to is not trusted: what is read here is run.
// Anything wrong (damage, read-only, full disk, no home) is a miss, never an error; a folder that
// cannot be used is named once on stderr.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/fork_mutex.h"

namespace braze::toolchain {

class DiskCache {
 public:
  // That of the options: $BRAZE_CACHE_DIR, else $XDG_CACHE_HOME/braze, else ~/.cache/braze; off
  // with BRAZE_CACHE=0. References stay valid for the whole process.
  static DiskCache& instance();

  // An empty folder: a cache that is off.
  DiskCache(std::string folder, int64_t limit_bytes);
  DiskCache(const DiskCache&) = delete;

  // `kind`: lower-case letters, digits, '-' and '_'. Thread-safe.
  std::optional<std::string> get(std::string_view kind, std::string_view key);
  enum class Use { kRead, kMapped };
  void put(std::string_view kind, std::string_view key, std::string_view bytes,
           Use use = Use::kRead);
  // A path to the entry's bytes for dlopen, checked; empty: not there. They were put as kMapped.
  std::optional<std::string> path(std::string_view kind, std::string_view key);
  void remove(std::string_view kind, std::string_view key);
  // Removes every entry (and nothing that is not one).
  void clear();

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_of(std::string_view kind) const;
  std::string file_of(std::string_view kind, std::string_view key) const;
  std::optional<std::string> read_checked(std::string_view kind, const std::string& file);
  bool trusted(std::string_view kind);
  bool make_folders(std::string_view kind);
  void account(int64_t written);
  void evict();
  void complain(std::string_view why);

  std::string folder_;
  int64_t limit_;
  ForkMutex mutex_;
  std::map<std::string, bool, std::less<>> trusted_;  // by kind, asked once
  int64_t written_since_scan_ = -1;                   // -1: not scanned yet
  int64_t scanned_bytes_ = 0;
  bool complained_ = false;
};

}  // namespace braze::toolchain
