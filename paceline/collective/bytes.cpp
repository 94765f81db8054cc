#include "paceline/collective/bytes.hpp"

#include <numeric>

namespace paceline {

std::vector<std::int64_t> gather_counts(Communicator& communicator, std::int64_t own,
                                        const CollectiveOptions& options) {
  std::vector<std::int64_t> mine = {own};
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.allgather(view(mine), view(all), options);
  return all;
}

void broadcast(Communicator& communicator, std::string& bytes, int root, const CollectiveOptions& options) {
  std::vector<std::int64_t> size = {static_cast<std::int64_t>(bytes.size())};
  communicator.broadcast(view(size), root, options);
  bytes.resize(static_cast<std::size_t>(size[0]));
  communicator.broadcast({bytes.data(), size[0], DType::u8}, root, options);
}

std::vector<std::string> allgather(Communicator& communicator, const std::string& bytes,
                                   const CollectiveOptions& options) {
  std::string own = bytes;
  const auto counts = gather_counts(communicator, static_cast<std::int64_t>(own.size()), options);
  std::string all(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})), '\0');
  communicator.allgatherv({own.data(), static_cast<std::int64_t>(own.size()), DType::u8},
                          {all.data(), static_cast<std::int64_t>(all.size()), DType::u8}, counts, options);
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (const std::int64_t count : counts) {
    parts.push_back(all.substr(at, static_cast<std::size_t>(count)));
    at += static_cast<std::size_t>(count);
  }
  return parts;
}

}  // namespace paceline
