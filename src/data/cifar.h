// CIFAR-10 and CIFAR-100 in binary form: records of one label byte (CIFAR-100: coarse, then fine) and 3 planes of
// 32 x 32 bytes, red, green, blue. https://www.cs.toronto.edu/~kriz/cifar.html describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/faults.h"
#include "data/image_set.h"

namespace mgtrain {

enum class CifarLabels { kTen, kFine, kCoarse };

struct CifarParts {
  std::vector<std::filesystem::path> train, val;  // files in order; empty if not there
};

/// Files of CIFAR-10 / CIFAR-100 in `path`, a folder or one of these files; none for any other file.
CifarParts find_cifar10(const std::filesystem::path& path);
CifarParts find_cifar100(const std::filesystem::path& path);

/// Batches 1 to 5 belong together: a gap is a fault, and so is one that lacks where the others have their published
/// size.
void check_cifar10_is_whole(const std::vector<std::filesystem::path>& train, int64_t num_samples, Faults& faults);

int64_t cifar_classes(CifarLabels labels);
/// The names in batches.meta.txt, fine_label_names.txt or coarse_label_names.txt; none if there is no such file.
std::vector<std::string> cifar_class_names(const std::filesystem::path& folder, CifarLabels labels, Faults& faults);
/// Records by the file's size; a size that is no multiple of a record is a fault, and gives 0.
int64_t count_cifar_records(const std::filesystem::path& file, CifarLabels labels, Faults& faults);
/// Appends pixels as [height, width, channels] and labels, each checked. A file of no whole records has none.
void read_cifar(const std::filesystem::path& file, CifarLabels labels, ImageSet& into, Faults& faults);

}  // namespace mgtrain
