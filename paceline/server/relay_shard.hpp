// RelayShard: what a relay does with the requests of its children; see relay.hpp for what it promises. Owned by the
// thread that owns the Endpoint, through which it talks to its parents while that thread is inside advance() or
// handle().
//
// Note [Views]. A view is one pull at the parents, and its values when they have come. They contain what the relay had
// sent before the parents made them, by each server's `heard`; what was sent later, and what is not sent yet, is added
// for each reader (ssp, essp). Under bsp nothing is added: a step is applied when all have ended it, and a worker adds
// its own updates of a step that is not over.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "paceline/server/combine_updates.hpp"
#include "paceline/server/key_lists.hpp"
#include "paceline/server/message_buffers.hpp"
#include "paceline/server/relay.hpp"
#include "paceline/server/session_state.hpp"
#include "paceline/sync/clocks.hpp"

namespace paceline {

class RelayShard {
 public:
  struct Answer {
    int worker = 0;
    std::uint64_t sequence = 0;
    std::vector<std::byte> message;
  };

  RelayShard(Endpoint& endpoint, const RelayOptions& options);
  ~RelayShard();

  void handle(int child, std::vector<std::byte>&& message);
  bool needs(int child) const { return broken_.empty() && clocks_.active(child) && !adds(); }
  void lose(int child, const std::string& how);
  // Takes what the parents have answered; true if that was anything.
  bool advance();
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  void give_back(std::vector<std::byte>&& message) { buffers_.give_back(std::move(message)); }
  bool deserted() const;

 private:
  struct Reader {
    int child = 0;
    RequestHeader header;
    bool joined = false;  // it waits for what another has asked for
  };
  struct View {
    RowRange range = {};
    std::vector<std::uint64_t> keys;
    std::int64_t required = 0;
    std::vector<float> values;
    std::unique_ptr<TablePending::State> pull;  // until it has ended
    std::vector<std::int64_t> contained;        // of each worker of the parents
    std::vector<std::uint64_t> heard;           // of each server: the last request of ours that it contains
    std::vector<Reader> readers;                // who wait for it
    bool outdated = false;                      // rows were set after it was asked for

    RowsOf rows() const { return {.range = range, .keys = keys}; }
  };
  struct Sent {
    RowChanges changes;
    std::vector<std::uint64_t> sequences;  // by server; 0: it had no part
  };
  struct RelayTable {
    Table::State* state = nullptr;
    std::map<std::int64_t, std::vector<RowChanges>> gathered;  // by step
    std::deque<Sent> sent;                                     // that some view may lack
    std::list<View> views;                                     // the latest last
    std::uint64_t pushes = 0;
  };
  struct Child {
    std::uint64_t last_sequence = 0;
    KeyLists lists;
    std::vector<std::int64_t> told;  // of each worker of the parents: the most that a read has contained
    bool gone = false;
  };
  struct Setting {
    Reader by;
    RowChanges rows;
    std::unique_ptr<TablePending::State> put;
  };

  void dispatch(int child, const TableRequest& request);
  void open(int child, const TableRequest& request);
  void put(int child, const TableRequest& request);
  void push(int child, const TableRequest& request);
  void pull(int child, const TableRequest& request);
  void tell_statistics(int child, const TableRequest& request);
  void leave(int child);
  void break_off(const std::string& why);

  RelayTable& table_of(const TableRequest& request);
  // Checked; nullopt: the list is forgotten.
  std::optional<RowsOf> rows_of(int child, const TableRequest& request, const RelayTable& table);
  // What a push or put brings; nullopt as above.
  std::optional<RowChanges> changes_of(int child, const TableRequest& request, const RelayTable& table);
  std::span<float> mapped(int child, const MappedValues& where, std::size_t floats) const;

  void settle();
  void send_step(RelayTable& table, std::int64_t step);
  void send_on(RelayTable& table, RowChanges changes);
  View* find_view(RelayTable& table, const RowsOf& rows, int child, std::int64_t required);
  bool serves(const View& view, int child, std::int64_t required) const;
  View& ask(RelayTable& table, const RowsOf& rows, std::int64_t required);
  bool advance_settings();
  bool advance_views(RelayTable& table);
  void take_values(View& view);
  void hand_out(RelayTable& table, View& view);
  static bool is_in_every_view(const RelayTable& table, const Sent& sent);
  void forget_views(RelayTable& table);
  void answer_from(RelayTable& table, const View& view, const Reader& reader);
  void add_what_it_lacks(const RelayTable& table, const View& view, std::span<float> values) const;
  bool adds() const;

  std::vector<std::int64_t> contained_for(const View& view) const;
  std::span<float> begin_answer(const Reader& reader, std::span<const std::int64_t> contained, ReplyHeader header,
                                std::string_view sentence = {});
  void answer(const Reader& reader, Status status, std::string_view sentence = {});

  // Constant after construction.
  Endpoint& endpoint_;
  const RelayOptions options_;

  Session::State parents_;
  Clocks clocks_;
  std::vector<Child> children_;
  std::deque<RelayTable> tables_;
  std::list<Setting> settings_;
  std::vector<Answer> answers_;
  MessageBuffers buffers_;
  std::string broken_;  // why no push or pull can be answered any more
  bool left_ = false;   // the parents
};

}  // namespace paceline
