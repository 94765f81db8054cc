#include "paceline/torch/tensor_collectives.hpp"

#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

TEST(TensorCollectives, AllreduceWorksOnEveryKindOfTensor) {
  run_shm_ranks(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    const float mine = static_cast<float>(endpoint.rank() + 1);
    torch::Tensor dense = torch::full({4, 5}, mine);
    allreduce(world, dense);
    EXPECT_TRUE(torch::equal(dense, torch::full({4, 5}, 6.0f)));
    torch::Tensor column = torch::full({4, 5}, mine).t();
    torch::Tensor part = column.narrow(1, 1, 2);
    allreduce(world, part, ReduceOp::average);
    EXPECT_TRUE(torch::equal(part, torch::full({5, 2}, 2.0f)));
    EXPECT_EQ(column[0][0].item<float>(), mine);
    torch::Tensor scalar = torch::tensor(static_cast<std::int64_t>(endpoint.rank()));
    allreduce(world, scalar, ReduceOp::max);
    EXPECT_EQ(scalar.item<std::int64_t>(), 2);
    torch::Tensor any = torch::tensor({endpoint.rank() == 1, false});
    allreduce(world, any, ReduceOp::max);
    EXPECT_TRUE(any[0].item<bool>());
    EXPECT_FALSE(any[1].item<bool>());
    torch::Tensor leaf = torch::full({3}, mine, torch::requires_grad());
    allreduce(world, leaf);
    EXPECT_EQ(leaf[0].item<float>(), 6.0f);
  });
}

TEST(TensorCollectives, BroadcastAndAllgather) {
  run_shm_ranks(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    torch::Tensor tensor = torch::full({2, 3}, static_cast<double>(endpoint.rank()), torch::kDouble);
    broadcast(world, tensor, 2);
    EXPECT_TRUE(torch::equal(tensor, torch::full({2, 3}, 2.0, torch::kDouble)));
    // As many rows as the rank's number, so that rank 0 has none.
    const auto parts = allgather(world, torch::full({endpoint.rank(), 4}, endpoint.rank(), torch::kInt));
    ASSERT_EQ(parts.size(), 3u);
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_TRUE(torch::equal(parts[static_cast<std::size_t>(rank)], torch::full({rank, 4}, rank, torch::kInt)));
  });
}

TEST(TensorCollectives, BytesOfAnySize) {
  run_shm_ranks(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::string text = endpoint.rank() == 1 ? std::string("from rank one\0!", 15) : "";
    broadcast(world, text, 1);
    EXPECT_EQ(text, std::string("from rank one\0!", 15));
    const auto all = allgather(world, std::string(static_cast<std::size_t>(endpoint.rank()), 'x'));
    EXPECT_EQ(all, (std::vector<std::string>{"", "x", "xx"}));
  });
}

TEST(TensorCollectives, WhatCannotTravelIsRefusedInOneSentence) {
  run_shm_ranks(1, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(1));
    torch::Tensor nothing;
    EXPECT_TRUE(contains(sentence_of([&] { allreduce(world, nothing); }), "undefined"));
    torch::Tensor complex = torch::zeros({2}, torch::kComplexFloat);
    EXPECT_TRUE(contains(sentence_of([&] { allreduce(world, complex); }), "ComplexFloat"));
    torch::Tensor sparse = torch::ones({2, 2}).to_sparse();
    EXPECT_TRUE(contains(sentence_of([&] { allreduce(world, sparse); }), "sparse"));
  });
}

}  // namespace
}  // namespace paceline
