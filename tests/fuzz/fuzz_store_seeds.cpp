// fuzz_store_seeds FOLDER: writes the inputs that fuzzing begins with, one or two for each mode.
#include <filesystem>
#include <fstream>

#include "paceline/launch/proof.hpp"
#include "paceline/launch/protocol.hpp"
#include "tests/fuzz/fuzz_store.hpp"

namespace {

using namespace paceline;

void write(const std::filesystem::path& folder, const std::string& name, FuzzMode mode, const std::string& pieces) {
  std::ofstream(folder / name, std::ios::binary) << static_cast<char>(mode) << pieces;
}

std::string request(Ask ask, std::uint32_t id, const std::string& key, const std::string& value) {
  return fuzz_piece(encode(StoreRequest{ask, id, key, value}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const std::string hello = encode_hello(this_build(), std::string(kNonceBytes, 'n'));
  const std::string frame = Seal("key", Direction::to_server).close("body");
  write(folder, "stranger", FuzzMode::stranger, fuzz_piece(hello) + fuzz_piece(Digest(kDigestBytes, 'p')));
  write(folder, "stranger-in-pieces", FuzzMode::stranger, fuzz_piece(hello.substr(0, 9)) + fuzz_piece(hello.substr(9)));
  write(folder, "member-bytes", FuzzMode::member_bytes, fuzz_piece(frame));
  write(folder, "member-bodies", FuzzMode::member_bodies,
        request(Ask::get, 1, "k", "") + request(Ask::set, 2, "k", "v") + request(Ask::claim, 3, "k", "w") +
            request(Ask::get, 4, "other", "") + request(Ask::claim, 5, "other", std::string(100, 'x')));
  write(folder, "false-server", FuzzMode::false_server,
        fuzz_piece(hello) + fuzz_piece('\x01' + Digest(kDigestBytes, 'p')));
  write(folder, "server-bodies", FuzzMode::server_bodies,
        fuzz_piece(encode(Reply{Answer::done, 1, ""})) + fuzz_piece(encode(Reply{Answer::value, 2, "v"})));
}
