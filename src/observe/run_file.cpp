#include "observe/run_file.h"

#include <utility>

#include "base/error.h"
#include "observe/number_text.h"

namespace mgtrain {
namespace {

OutputError output_error(FileSystem& files, const std::filesystem::path& file, const FileError& problem) {
  std::string message = "cannot write " + file.string() + ": " + problem.what();
  try {
    const uint64_t free = files.free_bytes(file);
    message += "; " + std::to_string(free) + " bytes free on that disk";
  } catch (const FileError&) {
    // The disk cannot even be asked; the first reason says enough.
  }
  return OutputError(message + (problem.disk_full() ? "; make room there, or choose another place with --output"
                                                    : "; check that the folder exists and may be written"));
}

}  // namespace

RunFile::RunFile(FileSystem& files, std::filesystem::path file, std::optional<uint64_t> keep)
    : files_(files), path_(std::move(file)) {
  try {
    if (keep && files_.is_file(path_)) {
      length_ = files_.size(path_);
      if (length_ > *keep) {
        files_.truncate(path_, *keep);
        length_ = *keep;
      }
    } else {
      files_.create(path_)->close();
      // Without this a power failure could take the name, and with it all that sync() brought to the disk.
      files_.sync_directory(path_.parent_path());
    }
    file_ = files_.append(path_);
  } catch (const FileError& problem) {
    throw output_error(files_, path_, problem);
  }
}

RunFile::~RunFile() {
  try {
    if (file_) file_->close();
  } catch (const FileError&) {
    // Every write reported its own failure; a destructor has nobody to tell.
  }
}

void RunFile::write(std::string_view bytes) {
  try {
    file_->write(std::as_bytes(std::span(bytes.data(), bytes.size())));
    length_ += bytes.size();
  } catch (const FileError& problem) {
    const OutputError error = output_error(files_, path_, problem);
    try {
      files_.truncate(path_, length_);
    } catch (const FileError&) {
      // The part of a record stays; a resume cuts it off.
    }
    throw error;
  }
}

void RunFile::sync() {
  try {
    file_->sync();
  } catch (const FileError& problem) {
    throw output_error(files_, path_, problem);
  }
}

void replace_file(FileSystem& files, const std::filesystem::path& file, std::string_view text) {
  std::filesystem::path temporary = file;
  temporary += ".new";
  try {
    const auto out = files.create(temporary);
    out->write(std::as_bytes(std::span(text.data(), text.size())));
    out->sync();
    out->close();
    files.rename(temporary, file);
    files.sync_directory(file.parent_path());
  } catch (const FileError& problem) {
    throw output_error(files, file, problem);
  }
}

}  // namespace mgtrain
