#include "toolchain/disk_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "toolchain/process.h"

namespace braze::toolchain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileMark = "BRAZE-1\n";
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr size_t kTrailerSize = 32;
constexpr time_t kTemporaryMaxAge = 3600;  // seconds; what a killed process has left

std::string trailer_of(std::string_view bytes) {
  const Hash128 hash = siphash128(bytes, 0x6b73'6964, 0x6568'6361'63);
  const uint64_t words[3] = {bytes.size(), hash.low, hash.high};
  std::string trailer(kFileMark);
  trailer.append(reinterpret_cast<const char*>(words), sizeof words);
  return trailer;
}

bool owned_by_user_alone(const struct stat& status) {
  return (status.st_uid == ::geteuid() || status.st_uid == 0) &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_entry_name(std::string_view name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

struct CachedFile {
  std::string path;
  int64_t bytes;
  timespec used;
};

// Every entry under `root`; temporary files that nobody writes any more are removed on the way.
std::vector<CachedFile> scan(const std::string& root) {
  std::vector<CachedFile> files;
  std::error_code error;
  for (const auto& kind : fs::directory_iterator(root, error)) {
    for (const auto& file : fs::directory_iterator(kind.path(), error)) {
      const std::string name = file.path().filename().string();
      struct stat status;
      if (::lstat(file.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      if (is_entry_name(name)) {
        files.push_back({file.path().string(), status.st_size, status.st_mtim});
      } else if (name.starts_with(kTemporaryPrefix) &&
                 status.st_mtim.tv_sec + kTemporaryMaxAge < ::time(nullptr)) {
        ::unlink(file.path().c_str());
      }
    }
  }
  return files;
}

std::string home_folder() {
  if (!options().home.empty()) return options().home;
  char buffer[4096];
  passwd entry;
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
    return found->pw_dir;
  return {};
}

std::string configured_folder() {
  const Options& settings = options();
  if (!settings.cache) return {};
  if (!settings.cache_dir.empty()) return settings.cache_dir;
  // The XDG specification: a relative path is to be ignored.
  if (settings.xdg_cache_home.starts_with('/')) return settings.xdg_cache_home + "/braze";
  const std::string home = home_folder();
  return home.empty() ? "" : home + "/.cache/braze";
}

// Each folder that is made on the way is the user's alone.
bool make_private_folders(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const size_t slash = path.rfind('/');
  if (errno != ENOENT || slash == path.npos || slash == 0) return false;
  return make_private_folders(path.substr(0, slash)) &&
         (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST);
}

}  // namespace

DiskCache& DiskCache::instance() {
  // Never destroyed: threads may still build while the process ends.
  static auto& mutex = *std::make_unique<ForkMutex>().release();
  static auto& caches = *std::make_unique<std::deque<DiskCache>>().release();
  static uint64_t generation = 0;
  std::lock_guard lock(mutex);
  if (generation != options_generation() || caches.empty()) {
    const std::string folder = configured_folder();
    const int64_t limit = options().cache_limit_mb << 20;
    if (caches.empty() || caches.back().folder_ != folder || caches.back().limit_ != limit)
      caches.emplace_back(folder, limit);
    generation = options_generation();
  }
  return caches.back();
}

DiskCache::DiskCache(std::string folder, int64_t limit_bytes)
    : folder_(std::move(folder)), limit_(limit_bytes) {
  if (folder_.empty() || folder_.starts_with('/')) return;
  std::error_code error;  // the working directory may change, dlopen looks up names without a slash
  folder_ = fs::absolute(folder_, error).string();
}

std::string DiskCache::folder_of(std::string_view kind) const {
  BRAZE_CHECK(!kind.empty() &&
                  kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == kind.npos,
              "kind '", kind, "' of a cache entry");
  return (folder_ + "/v1/").append(kind);
}

std::string DiskCache::file_of(std::string_view kind, std::string_view key) const {
  return folder_of(kind) + "/" + content_hash(key);
}

bool DiskCache::trusted(std::string_view kind) {
  std::lock_guard lock(mutex_);
  if (const auto known = trusted_.find(kind); known != trusted_.end()) return known->second;
  const std::string folder = folder_of(kind);
  struct stat status;
  if (::lstat(folder.c_str(), &status) != 0) return false;  // not there: may come later
  const bool fine = S_ISDIR(status.st_mode) && owned_by_user_alone(status);
  if (!fine) complain(folder + " belongs to, or can be written to by, somebody else");
  trusted_.emplace(kind, fine);
  return fine;
}

std::optional<std::string> DiskCache::read_checked(std::string_view kind, const std::string& file) {
  if (folder_.empty() || !trusted(kind)) return std::nullopt;
  // O_NONBLOCK: a pipe is not waited for.
  File input(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!input || ::fstat(input.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !owned_by_user_alone(status))
    return std::nullopt;
  std::optional<std::string> bytes = read_all(input.get());
  if (!bytes) return std::nullopt;
  const size_t payload = bytes->size() < kTrailerSize ? 0 : bytes->size() - kTrailerSize;
  const std::string_view view = *bytes;
  if (view.size() < kTrailerSize || view.substr(payload) != trailer_of(view.substr(0, payload))) {
    ::unlink(file.c_str());
    return std::nullopt;
  }
  bytes->resize(payload);
  ::futimens(input.get(), nullptr);  // now: the time of last use
  return bytes;
}

std::optional<std::string> DiskCache::get(std::string_view kind, std::string_view key) {
  return read_checked(kind, file_of(kind, key));
}

std::optional<std::string> DiskCache::path(std::string_view kind, std::string_view key) {
  std::string file = file_of(kind, key);
  if (!read_checked(kind, file)) return std::nullopt;
  return file;
}

void DiskCache::remove(std::string_view kind, std::string_view key) {
  if (!folder_.empty()) ::unlink(file_of(kind, key).c_str());
}

bool DiskCache::make_folders(std::string_view kind) {
  if (make_private_folders(folder_of(kind))) return true;
  std::lock_guard lock(mutex_);
  complain(std::strerror(errno));
  return false;
}

void DiskCache::put(std::string_view kind, std::string_view key, std::string_view bytes, Use use) {
  const auto total = static_cast<int64_t>(bytes.size() + kTrailerSize);
  if (folder_.empty() || total > limit_ || !make_folders(kind) || !trusted(kind)) return;
  std::string temporary = folder_of(kind) + "/" + std::string(kTemporaryPrefix) + "XXXXXX";
  File output(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  // What is written late may fail late. An entry that is read is checked each time, but not what
  // the loader maps, whose pages may be read again from the disk at any time.
  const bool written = output && write_all(output.get(), bytes) &&
                       write_all(output.get(), trailer_of(bytes)) &&
                       (use == Use::kRead || ::fdatasync(output.get()) == 0) && output.close() &&
                       ::rename(temporary.c_str(), file_of(kind, key).c_str()) == 0;
  if (written) return account(total);
  const std::string why = std::strerror(errno);
  ::unlink(temporary.c_str());
  std::lock_guard lock(mutex_);
  complain(why);
}

// Scans at the first write and then after each sixteenth of the limit: what other processes have
// written is seen there.
void DiskCache::account(int64_t written) {
  std::lock_guard lock(mutex_);
  if (written_since_scan_ >= 0) {
    written_since_scan_ += written;
    if (written_since_scan_ <= limit_ / 16 && scanned_bytes_ + written_since_scan_ <= limit_)
      return;
  }
  evict();
}

void DiskCache::evict() {
  std::vector<CachedFile> files = scan(folder_ + "/v1");
  int64_t total = 0;
  for (const CachedFile& file : files) total += file.bytes;
  if (total > limit_) {
    std::ranges::sort(files, [](const CachedFile& a, const CachedFile& b) {
      return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
    });
    const int64_t wanted = limit_ / 5 * 4;
    for (const CachedFile& file : files) {
      if (total <= wanted) break;
      ::unlink(file.path.c_str());
      total -= file.bytes;
    }
  }
  scanned_bytes_ = total;
  written_since_scan_ = 0;
}

void DiskCache::clear() {
  if (folder_.empty()) return;
  for (const CachedFile& file : scan(folder_ + "/v1")) ::unlink(file.path.c_str());
  std::lock_guard lock(mutex_);
  written_since_scan_ = -1;
}

void DiskCache::complain(std::string_view why) {
  if (std::exchange(complained_, true)) return;
  log::warning("the disk cache in " + folder_ + " cannot be used: " + std::string(why) +
               "; compiled kernels are not kept (BRAZE_CACHE_DIR names another folder)");
}

}  // namespace braze::toolchain
