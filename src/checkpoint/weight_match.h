// Tensors of a file against those of a model, by name: what fits, what lacks, what is too much. Torch-free.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace mgtrain {

enum class Conversion {
  kNone,    // dtypes are equal
  kWidens,  // or a float type is widened, which loses nothing
};

struct WeightMatch {
  std::vector<TensorEntry> fitting;         // the file's, in the model's order
  std::vector<std::string> missing;         // in the model only
  std::vector<std::string> extra;           // in the file only
  std::vector<std::string> misshapen;       // names in both with another shape or dtype
  std::vector<std::string> misshapen_text;  // "fc.weight (file F32 [1000, 512], model F32 [10, 512])"
  bool only_dtypes = true;                  // those have the right shapes
  size_t num_from = 0, num_into = 0;
};

WeightMatch match_weights(const std::vector<TensorEntry>& from, const std::vector<TensorEntry>& into,
                          Conversion conversion);
/// "SOURCE does not fit the model: of its 122 tensors and the model's 122, 120 fit; 2 have another shape: ...".
std::string describe_mismatch(const WeightMatch& match, const std::string& source);
/// Up to 10 of the names, and how many more there are. Long ones are cut, and control characters shown as '?'.
std::string first_names(const std::vector<std::string>& names);

}  // namespace mgtrain
