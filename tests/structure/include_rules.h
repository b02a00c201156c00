// Which file of src/ may include what: the section "Dependencies point one way" of docs/architecture.md as a pure
// function of the sources' text. A change of the arrows is made there and in the tables of include_rules.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace mgtrain::structure {

/// Path below src/ ("data/augment.cpp") -> text.
using SourceTree = std::map<std::string, std::string>;

/// Every breach, a line each: "data/augment.cpp:12: includes engine/trainer.h: data/ may include ...". Empty: none.
/// `base_sources`: the sources of mgtrain_base, which must not reach a LibTorch header, not even through headers.
std::vector<std::string> include_faults(const SourceTree& tree, const std::set<std::string>& base_sources);

}  // namespace mgtrain::structure
