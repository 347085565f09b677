#include "toolchain/nvrtc.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "toolchain/nvrtc_pool.h"
#include "toolchain/nvrtc_search.h"
#include "toolchain/side_by_side.h"

namespace braze::toolchain {
namespace {

constexpr std::string_view kCode = "cubins";
// Under a source's key: the key of the code that has its kernels.
constexpr std::string_view kPlaces = "cubins-of-sources";

// Every part with its length, so that no two lists of parts give the same text.
std::string cache_key(const NvrtcLibrary& nvrtc, const CudaSource& source) {
  std::string key = "nvrtc " + nvrtc.version() + "\n";
  for (const std::string& flag : source.flags) key += std::to_string(flag.size()) + ":" + flag;
  return key + "\n" + source.text;
}

// Sources that are compiled as one program.
struct Bundle {
  std::vector<size_t> sources;
  size_t size = 0;
};

// At most `count` bundles of about the same size, the largest first: the largest of what is left
// joins the smallest.
std::vector<Bundle> divided(std::span<const CudaSource> sources, std::vector<size_t> which,
                            size_t count) {
  std::ranges::stable_sort(which, std::greater(), [&](size_t i) { return sources[i].text.size(); });
  std::vector<Bundle> bundles(std::min(count, which.size()));
  for (size_t i : which) {
    Bundle& smallest = *std::ranges::min_element(bundles, {}, &Bundle::size);
    smallest.sources.push_back(i);
    smallest.size += sources[i].text.size();
  }
  for (Bundle& bundle : bundles) std::ranges::sort(bundle.sources);
  std::ranges::stable_sort(bundles, std::greater(), &Bundle::size);
  return bundles;
}

class Build {
 public:
  Build(std::span<const CudaSource> sources, DiskCache& cache, const NvrtcSetup& setup)
      : sources_(sources), cache_(cache), setup_(setup), place_(sources.size()) {}

  Cubins run() {
    number_keys();
    look_up();
    compile(missing());
    Cubins cubins;
    std::map<std::string, size_t> number;  // of the code with this key
    for (size_t i = 0; i < sources_.size(); ++i) {
      const std::string& place = place_[first_[i]];
      const auto [at, is_new] = number.try_emplace(place, cubins.code.size());
      if (is_new) cubins.code.push_back(std::move(code_.at(place)));
      cubins.of_source.push_back(at->second);
    }
    return cubins;
  }

 private:
  // Of sources that are the same the first stands for all.
  void number_keys() {
    std::map<std::string_view, size_t> first;
    keys_.reserve(sources_.size());
    for (const CudaSource& source : sources_) {
      keys_.push_back(cache_key(setup_.library, source));
      first_.push_back(first.try_emplace(keys_.back(), first_.size()).first->second);
    }
  }

  void look_up() {
    std::vector<std::optional<std::string>> found(sources_.size());
    side_by_side(sources_.size(), [&](size_t i) {
      if (first_[i] == i) found[i] = cache_.get(kPlaces, keys_[i]);
    });
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!found[i]) continue;
      std::optional<std::string>& code = looked_up_[*found[i]];
      if (!code) code = cache_.get(kCode, *found[i]);
      if (!code) continue;
      place_[i] = *found[i];
      code_.try_emplace(place_[i], *code);
    }
  }

  std::vector<size_t> missing() const {
    std::vector<size_t> missing;
    for (size_t i = 0; i < sources_.size(); ++i)
      if (first_[i] == i && place_[i].empty()) missing.push_back(i);
    return missing;
  }

  void compile(const std::vector<size_t>& missing) {
    if (missing.empty()) return;
    std::map<std::vector<std::string>, std::vector<size_t>> by_flags;
    for (size_t i : missing) by_flags[sources_[i].flags].push_back(i);
    std::vector<Bundle> bundles;
    for (auto& [flags, which] : by_flags)
      std::ranges::move(
          divided(sources_, std::move(which), std::max<size_t>(setup_.most_processes, 1)),
          std::back_inserter(bundles));
    NvrtcPool pool(setup_, bundles.size());
    std::vector<std::string> code(bundles.size());
    side_by_side(bundles.size(), [&](size_t i) { code[i] = compile(bundles[i], pool); });
    for (size_t i = 0; i < bundles.size(); ++i) keep(bundles[i], std::move(code[i]));
  }

  std::string compile(const Bundle& bundle, NvrtcPool& pool) {
    CudaSource program{.flags = sources_[bundle.sources[0]].flags};
    for (size_t i : bundle.sources) program.text += sources_[i].text;
    const auto begin = std::chrono::steady_clock::now();
    NvrtcResult result = pool.compile(program);
    if (!result.compiled)
      throw InternalError(
          __FILE__, __LINE__,
          detail::concat("NVRTC ", setup_.library.version(), " failed (", result.text, ")"));
    if (log::enabled(log::Component::kTiming)) {
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - begin;
      log::write(log::Component::kTiming,
                 detail::concat("NVRTC ", spent.count(), " ms, ", program.text.size(),
                                " bytes of source, ", bundle.sources.size(), " kernels"));
    }
    return std::move(result.text);
  }

  void keep(const Bundle& bundle, std::string code) {
    std::string keys;
    for (size_t i : bundle.sources) keys += content_hash(keys_[i]);
    const std::string place = content_hash(keys);
    cache_.put(kCode, place, code);
    for (size_t i : bundle.sources) {
      cache_.put(kPlaces, keys_[i], place);
      place_[i] = place;
    }
    code_[place] = std::move(code);
  }

  std::span<const CudaSource> sources_;
  DiskCache& cache_;
  const NvrtcSetup& setup_;
  std::vector<std::string> keys_;   // by source
  std::vector<size_t> first_;       // by source: the first that is the same
  std::vector<std::string> place_;  // by source: the key of its code; empty: there is none yet
  std::map<std::string, std::optional<std::string>> looked_up_;
  std::map<std::string, std::string> code_;  // by key
};

}  // namespace

Cubins cubins(std::span<const CudaSource> sources, DiskCache& cache, const NvrtcSetup& setup) {
  return Build(sources, cache, setup).run();
}

Cubins cubins(std::span<const CudaSource> sources, DiskCache& cache) {
  return cubins(sources, cache, usual_setup());
}

Cubins cubins(std::span<const CudaSource> sources) {
  return cubins(sources, DiskCache::instance());
}

}  // namespace braze::toolchain
