#include "paceline/launch/host_agent.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "paceline/core/error.hpp"
#include "paceline/launch/host_protocol.hpp"
#include "paceline/launch/job_loop.hpp"
#include "paceline/launch/line_reader.hpp"
#include "paceline/launch/local_crew.hpp"

namespace paceline {
namespace {

// A job holds a command line and some variables, which the kernel itself limits to less.
constexpr std::size_t kMaxOrder = 16 * 1024 * 1024;

bool write_all(const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (wrote < 0 && errno != EINTR) return false;
    if (wrote > 0) written += static_cast<std::size_t>(wrote);
  }
  return true;
}

// False at the end of the input.
bool read_orders(LineReader& orders) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
  if (got > 0) orders.add({buffer.data(), static_cast<std::size_t>(got)});
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

std::optional<std::string> wait_for_order(LineReader& orders) {
  auto order = orders.next();
  while (!order && read_orders(orders)) order = orders.next();
  return order;
}

EnvironmentList with(EnvironmentList base, const EnvironmentList& added) {
  for (const std::string& entry : added) {
    const std::size_t end = entry.find('=');
    if (end != std::string::npos) set_variable(base, entry.substr(0, end), entry.substr(end + 1));
  }
  return base;
}

// The spawner comes first, so that its guardian inherits nothing of the rest.
class HostAgent {
 public:
  HostAgent(const HostJob& job, const EnvironmentList& environment, LineReader& orders)
      : job_(job), environment_(with(environment, job.environment)), orders_(orders) {}
  void run();

 private:
  LocalCrewOptions crew_options() const;
  bool obey(JobLoop& loop);
  bool obey_orders(JobLoop& loop);
  void report(const Report& report) { outputs_.output().add(report_line(report)); }

  const HostJob& job_;
  const EnvironmentList environment_;
  LineReader& orders_;
  Spawner spawner_;
  SteadyClock clock_;
  Outputs outputs_{Outputs::Form::tagged};
};

LocalCrewOptions HostAgent::crew_options() const {
  return {.command = job_.command,
          .environment = environment_,
          .host = job_.host,
          .first_rank = job_.first_rank,
          .workers = job_.workers,
          .size = job_.size,
          .servers = job_.servers,
          .store = job_.store,
          .secret = job_.secret,
          .threads = job_.threads,
          .bind = job_.bind,
          .prefix = job_.prefix,
          .inherit_output = false,
          .pass_input = false,  // it is where the orders come from
          .follower_code = job_.follower_code};
}

void HostAgent::run() {
  if (chdir(job_.folder.c_str()) != 0)
    throw system_error(fmt::format("host {} cannot work in the folder {}", job_.host, job_.folder), errno);
  LocalCrew crew(crew_options(), spawner_, outputs_);
  JobLoop loop({.clock = clock_,
                .signals = spawner_.signals(),
                .crew = crew,
                .outputs = outputs_,
                .grace = job_.grace,
                .stops_with_workers = false,  // it has to hear when they are to go on
                .announce = [this](const Failure& failure) { report({.failure = failure}); },
                .at_end = [this] { report({.failure = {}, .ended = true}); }});
  loop.add_source(STDIN_FILENO, [&] { return obey(loop); });
  if (const auto failure = crew.start()) loop.fail_to_start(*failure);
  obey_orders(loop);  // those that came along with the job
  loop.run();
}

// False when there will be no more orders: the launcher is gone, or not sound.
bool HostAgent::obey(JobLoop& loop) {
  if (read_orders(orders_) && obey_orders(loop)) return true;
  outputs_.give_up();
  loop.kill_all();
  return false;
}

bool HostAgent::obey_orders(JobLoop& loop) {
  while (const auto order = orders_.next()) {
    const auto number = parse_signal(*order);
    if (!number) return false;
    *number == SIGKILL ? loop.kill_all() : loop.on_signal(*number);
  }
  return true;
}

}  // namespace

int run_host_agent(const EnvironmentList& environment) {
  if (isatty(STDIN_FILENO) != 0)
    throw Error(Code::invalid,
                "host-agent is what `paceline run --hosts` starts on each host; it does nothing by hand");
  occupy_standard_descriptors();
  LineReader orders(kMaxOrder);
  if (!write_all(greeting_line())) return 1;
  const auto order = wait_for_order(orders);
  if (!order) return 1;
  try {
    const HostJob job = parse_job(*order);
    HostAgent(job, environment, orders).run();
    return 0;
  } catch (const Error& error) {
    write_all(report_line({.failure = Failure{.sentence = error.what(), .others_remain = false}, .ended = true}));
    return 1;
  }
}

}  // namespace paceline
