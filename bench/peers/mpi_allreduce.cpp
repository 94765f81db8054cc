// MPI_Allreduce in place, built once for each MPI that is installed; CONTESTANT names it. Started by that MPI's mpirun.
#include <mpi.h>

#include <climits>

#include "bench/contestant.hpp"

namespace {

using paceline::Code;
using paceline::Error;
using paceline::bench::Options;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void check_world(const Options& options) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != options.ranks) {
    throw Error(Code::invalid,
                "--ranks says " + std::to_string(options.ranks) + " but mpirun started " + std::to_string(size));
  }
}

auto prepare(std::span<float> data) {
  if (data.size() > INT_MAX) throw Error(Code::invalid, "MPI 3 counts elements in an int; ask for fewer bytes");
  return [data] {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
}

// Reduced to one rank and sent back, because an allreduce need not give every rank the same bits.
double average(double value, int ranks) {
  double sum = 0;
  MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  return sum / ranks;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = paceline::bench::parse_options(argc, argv);
  MPI_Init(&argc, &argv);
  try {
    check_world(options);
    paceline::bench::run_points(CONTESTANT, options, world_rank(), prepare,
                                [&](double value) { return average(value, options.ranks); });
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
