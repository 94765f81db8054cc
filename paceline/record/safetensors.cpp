#include "paceline/record/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the limit of Hugging Face's reader
constexpr std::size_t kDataAlignment = 64;
constexpr int kMaxDepth = 2;  // of the header's brackets: file, array, shape
constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<std::string_view, std::int64_t> kElementBytes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I8", 1}, {"U8", 1}, {"BOOL", 1}};

// Names come from anywhere: escaped, so that they cannot play tricks on a terminal, and cut.
std::string escaped(const std::string& name) {
  return json(name.substr(0, 80)).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::optional<std::int64_t> element_bytes(std::string_view dtype) {
  for (const auto& [known, bytes] : kElementBytes) {
    if (known == dtype) return bytes;
  }
  return std::nullopt;
}

// nullopt if a dimension is negative or 63 bits cannot count the bytes. A zero counts as one until the end: whoever
// computes strides multiplies the other dimensions, and must not overflow either.
std::optional<std::int64_t> byte_count(std::int64_t element, std::span<const std::int64_t> shape) {
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) empty = true;
    if (dimension > 0 && __builtin_mul_overflow(element, dimension, &element)) return std::nullopt;
  }
  return empty ? 0 : element;
}

// What is wrong with an array of this many bytes; empty if nothing is.
std::string fault(const NamedArray& array, std::uint64_t bytes) {
  const auto element = element_bytes(array.dtype);
  if (!element) return fmt::format("array {} has the unknown dtype {}", escaped(array.name), escaped(array.dtype));
  const auto expected = byte_count(*element, array.shape);
  if (!expected) return fmt::format("array {} has an impossible shape", escaped(array.name));
  if (static_cast<std::uint64_t>(*expected) == bytes) return {};
  return fmt::format("array {} has {} bytes where its shape and dtype {} make {}", escaped(array.name), bytes,
                     array.dtype, *expected);
}

void check_for_writing(std::span<const NamedArray> arrays) {
  std::set<std::string_view> names = {kMetadata};
  for (const NamedArray& array : arrays) {
    std::string wrong = fault(array, array.bytes.size());
    if (!names.insert(array.name).second) wrong = fmt::format("the array name {} is taken", escaped(array.name));
    if (!wrong.empty()) throw Error(Code::invalid, "cannot write these arrays: " + wrong);
  }
}

std::string header_text(std::span<const NamedArray> arrays, const std::map<std::string, std::string>& metadata) {
  std::string text = metadata.empty() ? "{" : fmt::format("{{\"{}\":{}", kMetadata, json(metadata).dump());
  std::size_t begin = 0;
  for (const NamedArray& array : arrays) {
    const std::size_t end = begin + array.bytes.size();
    if (text.size() > 1) text += ',';
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json(array.name).dump(),
                        array.dtype, fmt::join(array.shape, ","), begin, end);
    begin = end;
  }
  return text + '}';
}

std::uint64_t read_length(std::string_view bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

// The parser calls this at each bracket, key and value. Entries are taken when they end and dropped from the tree, so
// that the tree stays small and the entries' order is the file's.
class HeaderReader {
 public:
  struct Entry {
    NamedArray array;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  explicit HeaderReader(const std::string& path) : path_(path) {}

  void read(std::string_view text) try {
    if (!text.starts_with('{')) fail("its header is not a JSON object");
    const json::parser_callback_t each = [this](int depth, json::parse_event_t event, json& value) {
      return take(depth, event, value);
    };
    [[maybe_unused]] const json emptied = json::parse(text, each);
  } catch (const json::exception&) {
    fail("its header is not JSON");
  }

  // The entries in the order of their bytes, once they are known to cover exactly `data_bytes`.
  std::vector<Entry>& place(std::uint64_t data_bytes) {
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::int64_t next = 0;
    for (const Entry& entry : entries_) {
      const char* lie = entry.begin > next ? "leaves a gap before" : "overlaps the one before";
      if (entry.begin != next) fail(fmt::format("array {} {} it", escaped(entry.array.name), lie));
      next = entry.end;
    }
    if (static_cast<std::uint64_t>(next) == data_bytes) return entries_;
    const char* guess = static_cast<std::uint64_t>(next) > data_bytes ? "truncated" : "something was added to it";
    fail(fmt::format("its arrays take {} bytes and it has {} for them: {}", next, data_bytes, guess));
  }

  std::map<std::string, std::string>& metadata() { return metadata_; }

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(Code::invalid,
                fmt::format("{} is not a good safetensors file: {}; use another copy of it", path_, reason));
  }

 private:
  bool take(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth > kMaxDepth) fail("its header is nested too deeply");
    if (depth == 1 && (event == Event::value || event == Event::array_start))
      fail(escaped(name_) + " is not an object");
    if (depth == 1 && event == Event::key) name_ = take_key(value, names_);
    if (depth == 1 && event == Event::object_start) keys_.clear();
    if (depth == 2 && event == Event::key) take_key(value, keys_);
    if (depth != 1 || event != Event::object_end) return true;
    name_ == kMetadata ? take_metadata(value) : take_array(value);
    return false;
  }

  std::string take_key(const json& key, std::set<std::string>& known) const {
    const auto [place, is_new] = known.insert(key.get<std::string>());
    if (!is_new) fail(fmt::format("its header has {} twice", escaped(*place)));
    return *place;
  }

  void take_metadata(const json& value) {
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(fmt::format("its metadata {} is not a text", escaped(key)));
      metadata_.emplace(key, text.get<std::string>());
    }
  }

  void take_array(const json& value) {
    Entry entry{.array = {.name = name_, .dtype = {}, .shape = integers(value, "shape"), .bytes = {}}};
    const auto dtype = value.find("dtype");
    if (dtype == value.end() || !dtype->is_string()) fail(fmt::format("array {} has no dtype", escaped(name_)));
    entry.array.dtype = dtype->get<std::string>();
    const std::vector<std::int64_t> offsets = integers(value, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) fail(fmt::format("array {} has bad offsets", escaped(name_)));
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const std::string wrong = fault(entry.array, static_cast<std::uint64_t>(entry.end - entry.begin));
    if (!wrong.empty()) fail(wrong);
    entries_.push_back(std::move(entry));
  }

  // Whole numbers in [0, 2^63); larger ones turn negative in get and are refused with the negative ones.
  std::vector<std::int64_t> integers(const json& value, const char* key) const {
    const auto list = value.find(key);
    if (list == value.end() || !list->is_array()) fail(fmt::format("array {} has no {}", escaped(name_), key));
    std::vector<std::int64_t> result;
    for (const json& item : *list) {
      if (!item.is_number_integer() || item.get<std::int64_t>() < 0) {
        fail(fmt::format("array {} has a {} that is not made of whole numbers", escaped(name_), key));
      }
      result.push_back(item.get<std::int64_t>());
    }
    return result;
  }

  const std::string& path_;
  std::string name_;  // of the entry under way
  std::set<std::string> names_, keys_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

std::string safetensors_header(std::span<const NamedArray> arrays, const std::map<std::string, std::string>& metadata) {
  check_for_writing(arrays);
  std::string header(kLengthBytes, '\0');
  try {
    header += header_text(arrays, metadata);
  } catch (const json::exception&) {
    throw Error(Code::invalid, "cannot write these arrays: a name or a metadata text is not UTF-8");
  }
  header.resize((header.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  const std::uint64_t length = header.size() - kLengthBytes;
  if (length > kMaxHeaderBytes)
    throw Error(Code::invalid, "cannot write these arrays: names and metadata exceed 100 MB");
  for (std::size_t i = 0; i < kLengthBytes; ++i) header[i] = static_cast<char>(length >> (8 * i));
  return header;
}

std::vector<std::span<const std::byte>> safetensors_parts(std::string_view header, std::span<const NamedArray> arrays) {
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(header))};
  for (const NamedArray& array : arrays) parts.push_back(array.bytes);
  return parts;
}

void write_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = safetensors_header(arrays, metadata);
  write_atomically(path, safetensors_parts(header, arrays));
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : bytes_(std::make_unique<const std::string>(read_file(path))) {
  HeaderReader reader(path);
  const std::string_view all = *bytes_;
  if (all.size() < kLengthBytes) reader.fail(fmt::format("it has only {} bytes: truncated", all.size()));
  const std::uint64_t length = read_length(all);
  if (length > kMaxHeaderBytes) reader.fail("its header would exceed 100 MB");
  if (length > all.size() - kLengthBytes) reader.fail(fmt::format("it ends inside its header: truncated"));
  reader.read(all.substr(kLengthBytes, length));

  const auto data = std::as_bytes(std::span(all.substr(kLengthBytes + length)));
  for (auto& [array, begin, end] : reader.place(data.size())) {
    array.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    arrays_.push_back(std::move(array));
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) index_.emplace(arrays_[i].name, i);
  metadata_ = std::move(reader.metadata());
}

const NamedArray* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &arrays_[found->second];
}

}  // namespace paceline
