#include "paceline/cli/download.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/descriptor.hpp"

namespace paceline {
namespace {

constexpr long kConnectSeconds = 20;
constexpr long kSilentSeconds = 60;

struct EndCurl {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Curl = std::unique_ptr<CURL, EndCurl>;

// The file that is being written, under its temporary name. Locked, so that two commands do not write one file.
class Part {
 public:
  explicit Part(std::string path) : path_(std::move(path)) {
    file_ = Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file_.valid()) throw system_error("cannot write " + path_, errno);
    if (flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
      throw Error(Code::system, fmt::format("another command is writing {}: wait for it to end", path_));
    }
    const off_t end = lseek(file_.number(), 0, SEEK_END);
    if (end < 0) throw system_error("cannot read " + path_, errno);
    size_ = static_cast<std::uint64_t>(end);
  }

  std::uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // The errno of a failure.
  int append(const char* bytes, std::size_t count) {
    while (count > 0) {
      const ssize_t written = write(file_.number(), bytes, count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes += written;
      count -= static_cast<std::size_t>(written);
      size_ += static_cast<std::uint64_t>(written);
    }
    return 0;
  }
  void clear() {
    if (ftruncate(file_.number(), 0) != 0 || lseek(file_.number(), 0, SEEK_SET) != 0)
      throw system_error("cannot write " + path_, errno);
    size_ = 0;
  }
  void remove() const { unlink(path_.c_str()); }
  void move_to(const std::string& path) const {
    if (fsync(file_.number()) != 0 || rename(path_.c_str(), path.c_str()) != 0) {
      const int reason = errno;
      remove();
      throw system_error("cannot write " + path, reason);
    }
  }

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

class Transfer {
 public:
  Transfer(const DownloadOptions& options, Part& part) : options_(options), part_(part) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    curl_.reset(ready == CURLE_OK ? curl_easy_init() : nullptr);
    if (!curl_) throw Error(Code::system, "libcurl cannot be used here");
    set(CURLOPT_URL, options.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    set(CURLOPT_USERAGENT, "paceline");
    set(CURLOPT_WRITEFUNCTION, &Transfer::take);
    set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::look);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  }

  // From where the part ends. False if the server cannot do that, and it must begin anew.
  bool run() {
    const std::uint64_t before = part_.size();
    set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(before));
    const CURLcode result = curl_easy_perform(curl_.get());
    if (before > 0 && (result == CURLE_RANGE_ERROR || (result == CURLE_HTTP_RETURNED_ERROR && status() == 416)))
      return false;
    if (result != CURLE_OK) fail(result);
    return true;
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    const CURLcode result = curl_easy_setopt(curl_.get(), option, value);
    CHECK(result == CURLE_OK || option == CURLOPT_URL, "libcurl knows the option");
  }

  static std::size_t take(char* bytes, std::size_t size, std::size_t count, void* self) {
    Transfer& transfer = *static_cast<Transfer*>(self);
    transfer.too_long_ = transfer.part_.size() + size * count > transfer.options_.bytes;
    if (transfer.too_long_) return 0;
    transfer.write_error_ = transfer.part_.append(bytes, size * count);
    if (transfer.write_error_ != 0) return 0;
    transfer.options_.progress(transfer.part_.size());
    return size * count;
  }
  static int look(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Transfer*>(self)->options_.cancelled() ? 1 : 0;
  }

  long status() const {
    long code = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  [[noreturn]] void fail(CURLcode result) const {
    const std::string& url = options_.url;
    if (write_error_ != 0) {
      part_.remove();  // it would keep a full disk full
      throw system_error("cannot write " + part_.path(), write_error_);
    }
    if (too_long_) {
      part_.remove();
      throw Error(Code::system, fmt::format("{} is longer than the {} bytes that it should have, and was removed", url,
                                            options_.bytes));
    }
    const std::string reason = curl_easy_strerror(result);
    switch (result) {
      case CURLE_ABORTED_BY_CALLBACK:
        throw Error(Code::cancelled, fmt::format("interrupted after {} of {} bytes of {}; the same command goes on "
                                                 "from there",
                                                 part_.size(), options_.bytes, url));
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
        throw Error(
            Code::system,
            fmt::format("cannot fetch {}: there is no connection ({}); --from URL names another place", url, reason));
      case CURLE_HTTP_RETURNED_ERROR:
        throw Error(Code::system, fmt::format("cannot fetch {}: the server answers {}; --from URL names another place",
                                              url, status()));
      case CURLE_PARTIAL_FILE:
      case CURLE_RECV_ERROR:
      case CURLE_GOT_NOTHING:
      case CURLE_OPERATION_TIMEDOUT:
        throw Error(Code::system, fmt::format("the connection broke off after {} of {} bytes of {} ({}); the same "
                                              "command goes on from there",
                                              part_.size(), options_.bytes, url, reason));
      default: throw Error(Code::system, fmt::format("cannot fetch {}: {}", url, reason));
    }
  }

  const DownloadOptions& options_;
  Part& part_;
  Curl curl_;
  int write_error_ = 0;
  bool too_long_ = false;
};

// Whatever an earlier call left may be of another file; then it is not what is tried twice.
enum class Began { anew, from_part };

Began transfer(const DownloadOptions& options, Part& part) {
  if (part.size() > options.bytes) part.clear();
  if (part.size() == options.bytes) return Began::from_part;
  const Began began = part.size() > 0 ? Began::from_part : Began::anew;
  if (Transfer(options, part).run()) return began;
  part.clear();
  Transfer(options, part).run();
  return Began::anew;
}

// Empty if that is what is there.
std::string difference(const DownloadOptions& options, const Part& part) {
  if (part.size() != options.bytes) return fmt::format("has {} bytes instead of {}", part.size(), options.bytes);
  const std::string sum = sha256_of(part.path());
  return sum == options.sha256 ? "" : fmt::format("has the SHA-256 sum {} instead of {}", sum, options.sha256);
}

}  // namespace

void download(const DownloadOptions& options) {
  Part part(options.path + kPartSuffix);
  try {
    const Began began = transfer(options, part);
    std::string wrong = difference(options, part);
    if (!wrong.empty() && began == Began::from_part) {
      part.clear();
      transfer(options, part);
      wrong = difference(options, part);
    }
    if (!wrong.empty()) {
      part.remove();
      throw Error(Code::system, fmt::format("what {} gives {}, and was removed", options.url, wrong));
    }
  } catch (const Error&) {
    if (part.size() == 0) part.remove();
    throw;
  }
  part.move_to(options.path);
}

std::string sha256_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<char> block(std::size_t{1} << 20);
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) || stream.gcount() > 0)
    EVP_DigestUpdate(context.get(), block.data(), static_cast<std::size_t>(stream.gcount()));
  if (!stream.eof()) return "";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace paceline
