// The hosts of a job, as a user writes them: `a:4,b:4` on the command line, or a file with one host per line. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace paceline {

// As written: without a count, it is one worker unless the whole number of workers says otherwise.
struct HostEntry {
  std::string name;  // as ssh takes it: b, user@b, 10.0.0.2, fe80::2
  std::optional<int> workers;

  bool operator==(const HostEntry&) const = default;
};

// "a:4,b", "user@10.0.0.2:2", "[fe80::2]:4". A host named twice has the sum. Throws Error{invalid} naming the entry.
std::vector<HostEntry> parse_host_list(const std::string& text);
// Lines of the form `a`, `a:4` or `a slots=4`; # begins a comment. Throws Error{invalid} naming file and line.
std::vector<HostEntry> parse_host_file(const std::string& text, const std::string& file);

// "a,b": hosts for servers, which have no counts. Throws Error{invalid} naming the entry, also of one named twice.
std::vector<std::string> parse_server_hosts(const std::string& text);

struct Host {
  std::string name;
  int workers = 1;
  std::vector<int> servers = {};  // the numbers of those that run here, in processes of their own

  // This machine: nothing is needed to get there.
  bool is_here() const { return name == "localhost"; }
  bool operator==(const Host&) const = default;
};
// How many workers each host gets. If a number of workers is given, it must be the sum of the counts; if no host has a
// count, the workers are spread evenly in blocks, the first hosts having one more where it does not come out even.
// Hosts that are left without a worker are left out. Throws Error{invalid}.
std::vector<Host> place_workers(const std::vector<HostEntry>& entries, std::optional<int> workers);

// Deals servers 0 to `servers` - 1 out to `names`, one after the other; hosts that are new come last, without workers.
void place_servers(std::vector<Host>& hosts, const std::vector<std::string>& names, int servers);

// Throws Error{invalid}: there are more than a job can have.
int workers_of(const std::vector<Host>& hosts);

}  // namespace paceline
