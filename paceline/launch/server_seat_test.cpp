#include "paceline/launch/server_seat.hpp"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "paceline/launch/meeting.hpp"
#include "paceline/launch/store_host.hpp"

namespace paceline {
namespace {

constexpr int kWorkers = 3;
constexpr int kServers = 2;
constexpr Tag kGreeting{77, 1};

class ServerSeats : public testing::Test {
 protected:
  Lookup environment(const std::string& rank) const {
    const std::map<std::string, std::string> variables = {{"PACELINE_RANK", rank},
                                                          {"PACELINE_SIZE", std::to_string(kWorkers)},
                                                          {"PACELINE_SERVERS", std::to_string(kServers)},
                                                          {"PACELINE_STORE", to_string(host_.address())},
                                                          {"PACELINE_SECRET", terms_.secret}};
    return [variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
  }

  // As join does.
  void work(Rank rank, std::unique_ptr<Endpoint>& among_workers, std::unique_ptr<Endpoint>& with_all) {
    const TimePoint deadline = clock_.after(std::chrono::seconds(60));
    StoreClient client(host_.address(), terms_, deadline, clock_);
    const MeetOptions first = meet_options(*read_environment(environment(std::to_string(rank))), deadline);
    among_workers = meet(first, client);
    with_all = meet(with_servers(first, kServers), client);
  }

  SteadyClock clock_;
  Terms terms_{.secret = "a secret"};
  StoreHost host_{{.address = {"127.0.0.1", 0}, .terms = terms_}, clock_};
};

TEST_F(ServerSeats, WorkersMeetServersBesideTheirOwnMeeting) {
  std::vector<std::unique_ptr<Endpoint>> first(kWorkers), second(kWorkers);
  std::vector<std::unique_ptr<ServerSeat>> seats(kServers);
  {
    std::vector<std::jthread> processes;
    for (std::size_t i = 0; i < kServers; ++i)
      processes.emplace_back(
          [&, i] { seats[i] = std::make_unique<ServerSeat>(environment(std::to_string(kWorkers + i))); });
    for (std::size_t i = 0; i < kWorkers; ++i)
      processes.emplace_back([&, i] { work(static_cast<Rank>(i), first[i], second[i]); });
  }
  for (int i = 0; i < kServers; ++i) {
    ServerSeat& seat = *seats[static_cast<std::size_t>(i)];
    EXPECT_EQ(seat.index(), i);
    EXPECT_EQ(seat.workers(), kWorkers);
    EXPECT_EQ(seat.servers(), kServers);
    EXPECT_EQ(seat.endpoint().rank(), kWorkers + i);
    EXPECT_EQ(seat.endpoint().size(), kWorkers + kServers);
    int heard = 0;
    const int said = 40 + i;
    auto receive = seat.endpoint().receive(0, kGreeting, std::as_writable_bytes(std::span(&heard, 1)));
    auto send = second[0]->send(kWorkers + i, kGreeting, std::as_bytes(std::span(&said, 1)));
    while (!receive.test() || !send.test()) std::this_thread::yield();
    EXPECT_EQ(heard, said);
  }
  for (const auto& endpoint : first) EXPECT_EQ(endpoint->size(), kWorkers);
}

TEST_F(ServerSeats, AreNotForWorkers) {
  for (const char* rank : {"0", "2"}) {
    try {
      ServerSeat seat(environment(rank));
      ADD_FAILURE() << rank;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "this is a server of `paceline train --servers-on`, which starts it");
    }
  }
}

}  // namespace
}  // namespace paceline
