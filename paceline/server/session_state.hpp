// The inside of Session and Table: requests under way, and what a worker remembers of servers and tables.
//
// Note [Own updates]. A read must contain what this worker has written. Updates and reads go to a server over one
// ordered link, so a pull that leaves after an inc contains it, except with bsp, where updates wait for those of
// others, and in a copy that was made before. So own incs of a dense table are kept until a copy contains them: until a
// reply was made after they were heard (`heard`), with bsp until their step is applied.
#pragma once

#include <deque>
#include <limits>
#include <list>
#include <optional>
#include <unordered_map>

#include "paceline/core/random.hpp"
#include "paceline/server/bucket_moves.hpp"
#include "paceline/server/key_lists.hpp"
#include "paceline/server/message_buffers.hpp"
#include "paceline/server/table.hpp"

namespace paceline {

inline constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();  // contained, of who has left

// One request to one server.
struct TableFlight {
  int server = 0;
  RequestHeader header;
  std::vector<std::byte> message;
  std::vector<std::byte> reply;
  Pending send;
  Pending receive;
  std::vector<std::uint64_t> keys;       // of this server, where there are several
  std::vector<std::uint32_t> positions;  // in the caller's list, of those
  std::span<const std::uint64_t> listed;
  std::span<const float> pushed;             // what goes with them, where the message has it
  std::string note = {};                     // what else the message has: a table's spec
  std::span<float> into;                     // of a pull; the caller's whole memory where there are positions
  std::vector<std::int64_t> contained = {};  // of a pull's reply
  std::uint64_t heard = 0;
  bool ended = false;
};

struct TablePending::State {
  Session::State* session = nullptr;
  Table::State* table = nullptr;
  std::vector<std::unique_ptr<TableFlight>> flights;
  std::vector<float> gathered;     // values of keys in the order of servers
  std::vector<float> sifted = {};  // what a filter lets pass
  struct Worth {                   // of it, the rows that are not zeros
    std::vector<std::uint64_t> keys;
    std::vector<float> values;
  } worth = {};
  bool copies = false;                     // whatever is pushed: mapped memory could change before it is applied
  bool keys_come_again = true;             // so that they are remembered
  std::optional<std::int64_t> clock = {};  // of pull_at: counts as a read
};

struct Table::State {
  TableSpec spec;
  struct OnServer {
    std::uint32_t number = 0;
    std::uint64_t version = 0;  // of the latest reply
  };
  std::vector<OnServer> servers;
  FilterOptions filter;
  BucketOwners owners;  // of a sparse table whose load is shared anew; empty: as server_of_key has it
  bool drops_zeros = false;
  KeptBack kept;
  // A dense table's copy, for policies that allow stale reads.
  struct Copy {
    std::vector<float> values;
    std::vector<std::int64_t> contained;  // over all servers; empty: there is no copy
  };
  Copy copy;
  std::vector<float> fetched;  // where the values of `fetch` arrive
  bool fetching = false;
  TablePending fetch;
  struct OwnUpdate {
    RowRange rows;
    std::vector<float> changes;
    std::int64_t step = 0;
    std::vector<std::uint64_t> sequences;  // by server; 0 where it had no part
  };
  std::deque<OwnUpdate> own;
  // bsp, sparse: own incs of this step, which no server has applied yet.
  std::unordered_map<std::uint64_t, std::vector<float>> own_rows;
};

// Throws Error{invalid}: load that is shared anew where nobody may wait for others.
void check_sharing(const TableSpec& spec, const Policy& policy);
int server_of(const Table::State& table, std::uint64_t row, int servers);

class Session::State {
 public:
  State(Endpoint& endpoint, SessionOptions options);

  void open(Table::State& table);
  std::unique_ptr<TablePending::State> request(Table::State& table);
  void ask_range(TablePending::State& request, Verb verb, RowRange rows, std::span<const float> values,
                 std::span<float> into, double rate, std::int64_t required);
  void ask_keys(TablePending::State& request, Verb verb, Table::Keys keys, std::span<const float> values,
                std::span<float> into, double rate, std::int64_t required);
  RequestHeader header_of(Verb verb, double rate, std::int64_t required) const;
  // Anything else, of one server.
  TableFlight& ask(TablePending::State& request, int server, const RequestHeader& header, std::string note = {});
  // The changes of an inc that are worth sending now. They lie in the request where they are not the caller's.
  template <class Rows>
  std::span<const float> sift(TablePending::State& request, Rows rows, std::span<const float> changes);
  void push_changes(TablePending::State& request, RowRange rows, std::span<const float> changes);
  void push_changes(TablePending::State& request, Table::Keys keys, std::span<const float> changes);
  // True when all flights have ended; throws what a server refused.
  bool advance(TablePending::State& request);
  void wait(TablePending::State& request);
  void wait_timed(TablePending::State& request);  // counts as waiting
  // For requests whose end nobody waits for.
  void let_go(std::unique_ptr<TablePending::State> request);
  void reap();

  void clock();
  void flush();
  void leave();
  // Of a relay: one of its workers is lost.
  void tell_lost(const std::string& sentence) { send_to_all(Verb::lost, sentence); }
  // Counts a read, and whether it kept the promise.
  void note_read(std::span<const std::int64_t> contained, std::int64_t required);
  // Over all servers that took part, the least of each worker.
  std::vector<std::int64_t> contained_in(const TablePending::State& request) const;
  std::int64_t least(std::span<const std::int64_t> contained) const;
  std::vector<std::uint64_t> versions_of(const Table::State& table) const;
  Staleness updates_missed(Table::State& table);

  // Reads of a dense table's copy: see Note [Own updates].
  bool keeps_copies() const;
  void renew_copy(Table::State& table);
  void copy_out(const Table::State& table, RowRange rows, std::span<float> into) const;
  void read_copy(Table::State& table, RowRange rows, std::span<float> into);
  void read_servers(Table::State& table, RowRange rows, std::span<float> into);
  void note_own(Table::State& table, const TablePending::State& push, RowRange rows, std::span<const float> changes);
  void add_own(Table::State& table, const TablePending::State& reply, RowRange rows, std::span<float> into);
  bool mapped(int server, std::span<const float> memory, MappedValues& where) const;

  Endpoint& endpoint;
  SessionOptions options;  // constant, but for the policy's bound
  struct Link {
    std::uint64_t sequence = 0;
    std::deque<KeysHash> remembered;
  };
  std::vector<Link> links;
  std::list<Table::State> tables;
  MessageBuffers buffers;
  std::int64_t now = 0;
  SessionCounters counters;
  Staleness staleness;

 private:
  void send(Table::State& table, TableFlight& flight);
  void name_keys(TableFlight& flight, bool come_again);
  bool pick_rows_worth_sending(TablePending::State& request, std::span<const float> changes);
  bool is_dropped(Verb verb);
  bool travels(const TablePending::State& request, std::span<const float> values) const;
  void send_kept(Table::State& table);
  void share_load_anew(Table::State& table, std::int64_t step);
  std::vector<std::uint64_t> loads_of(Table::State& table, std::int64_t step);
  BucketOwners owners_from(Table::State& table, std::int64_t step, std::span<const std::uint64_t> loads);
  RequestHeader header_at(Verb verb, std::int64_t step) const;
  static void own(TableFlight& flight);
  void take_reply(Table::State& table, TableFlight& flight);
  void send_to_all(Verb verb, std::string_view sentence = {});
  void start_fetch(Table::State& table, std::int64_t required);
  void take_fetch(Table::State& table);
  void take_copy(Table::State& table, const TablePending::State& reply);
  bool is_fresh(const Table::State& table, std::int64_t required) const;

  Random drops_;
  std::list<TablePending> let_go_;
  std::list<TableFlight> notes_;  // clock, leave
};

}  // namespace paceline
