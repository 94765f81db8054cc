// Named records of bytes, one after the other, in a file that may be larger than memory: the rows of tables beside a
// checkpoint or a model. Written once, record by record; read from its beginning, one record in memory at a time.
//
//   "paceline rows 1\n"                                                     16 bytes
//   of each record: the length of its name (4), of its content (8), name, content; lengths little-endian
//   the end: 0 (4), 16 (8), XXH3-128 of all records and what is before them (16)
//
// The checksum is against accidents, not against forgers. Each object is owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// Error{system}: a full disk and the like, naming the path. What was not published is gone with the object.
class RowsFileWriter {
 public:
  explicit RowsFileWriter(const std::string& path);
  RowsFileWriter(RowsFileWriter&&) noexcept;
  RowsFileWriter& operator=(RowsFileWriter&&) = delete;
  ~RowsFileWriter();

  void append(std::string_view name, std::string_view content);  // the name is not empty
  // On the disk and under its name when it returns. The checksum, in hexadecimal.
  std::string publish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Error{invalid} with the reason, naming the path: missing, not such a file, of a later format, truncated, damaged.
// What is wrong with the checksum is found at the end: who must not use damaged records reads the file twice.
class RowsFileReader {
 public:
  explicit RowsFileReader(const std::string& path);
  ~RowsFileReader();
  RowsFileReader(const RowsFileReader&) = delete;
  RowsFileReader& operator=(const RowsFileReader&) = delete;

  struct Record {
    std::string name;
    std::string content;
  };
  std::optional<Record> next();  // nullopt: the end, and the checksum is right
  // In hexadecimal, after the end.
  const std::string& checksum() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of a file that is whole and undamaged; Error{invalid}.
std::string checksum_of_rows(const std::string& path);

}  // namespace paceline
