#include "paceline/torch/generate.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// While it lives the model evaluates.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& module) : module_(module), trained_(module.is_training()) { module_.eval(); }
  ~Evaluating() { module_.train(trained_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  torch::nn::Module& module_;
  const bool trained_;
  torch::NoGradGuard no_grad_;
};

std::int64_t number_of(char character, const std::string& vocabulary) {
  const std::size_t found = vocabulary.find(character);
  if (found != std::string::npos) return static_cast<std::int64_t>(found);
  const auto byte = static_cast<unsigned char>(character);
  throw Error(Code::invalid, byte > ' ' && byte < 0x7f
                                 ? fmt::format("the prompt has a '{}', which was not in the text", character)
                                 : fmt::format("the prompt has a byte {:#04x}, which was not in the text", byte));
}

std::vector<std::int64_t> numbers_of(const std::string& prompt, const std::string& vocabulary) {
  if (prompt.empty()) {
    const std::size_t line_end = vocabulary.find('\n');
    return {line_end == std::string::npos ? 0 : static_cast<std::int64_t>(line_end)};
  }
  std::vector<std::int64_t> numbers;
  for (const char character : prompt) numbers.push_back(number_of(character, vocabulary));
  return numbers;
}

void require_sense(const Form& form, const std::string& vocabulary, const GenerateOptions& options) {
  if (form.kind != Kind::text) throw Error(Code::invalid, "only a model of text can write");
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw Error(Code::invalid, fmt::format("a temperature of {} is not a number from 0 up", options.temperature));
  TORCH_INTERNAL_ASSERT(vocabulary.size() == static_cast<std::size_t>(form.classes), "a vocabulary of other data");
}

}  // namespace

std::string generate(const Model& model, const Form& form, const std::string& vocabulary, const std::string& prompt,
                     const GenerateOptions& options) {
  require_sense(form, vocabulary, options);
  std::vector<std::int64_t> numbers = numbers_of(prompt, vocabulary);
  const auto window = static_cast<std::size_t>(form.shape.width);
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  const Evaluating evaluating(*model.module);
  std::string text;
  while (text.size() < options.count) {
    const std::size_t known = std::min(window, numbers.size());
    const torch::Tensor seen = torch::from_blob(numbers.data() + (numbers.size() - known),
                                                {1, static_cast<std::int64_t>(known)}, torch::kLong);
    const torch::Tensor scores = model.forward(seen).select(1, -1).flatten();
    const torch::Tensor next = options.temperature == 0
                                   ? scores.argmax()
                                   : scores.div(options.temperature).softmax(0).multinomial(1, false, generator);
    numbers.push_back(next.item<std::int64_t>());
    text += vocabulary[static_cast<std::size_t>(numbers.back())];
  }
  return text;
}

}  // namespace paceline
