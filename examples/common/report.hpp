// What an example prints and records: one line of a table, and one JSON object per measured case.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

/// One measured case. Its fields are the JSON record's.
/// Times are 0 where nothing was timed.
struct Record {
  std::string example;
  std::string producer;  ///< "conv2d 128×64×128×128, 128 filters 3×3, bias"
  std::string chain;     ///< the tail in EpiFuse's language
  std::string consumer;  ///< the library call behind the tail; empty where there is none
  std::string dtype;  ///< of the tail's first operand and of its results, "f16", "i32 to i8", "f16 to f16/f8e4m3/f32"
  std::string layout;
  std::vector<std::int64_t> shape;  ///< of the first result
  double producer_ms = 0;
  double tail_ms = 0;
  double copy_ms = 0;      ///< device-to-device copy that moves as many bytes as the tail
  double pair_ms = 0;      ///< producer and tail, one after the other
  double together_ms = 0;  ///< both as one launch; 0 where that is not measured
  double consumer_ms = 0;  ///< the library call behind the tail; 0 where there is none
  double all_ms = 0;       ///< producer, tail and consumer, one after the other
  std::int64_t bytes = 0;  ///< read and written by the tail, each element once
  double max_error = 0;
  std::int64_t samples = 0;
  double producer_max_error = 0;
  double consumer_max_error = 0;
  bool verified = false;
  std::string device;
  std::string driver;
  std::string cuda_runtime;
  std::string library;  ///< "cuDNN 9.19.0"
  std::string epifuse;

  double ratio() const noexcept { return tail_ms / copy_ms; }
  double gbps() const noexcept { return static_cast<double>(bytes) / tail_ms * 1e-6; }
};

/// One line of JSON, without a newline.
std::string to_json(const Record& record);

/// Appends that line to a file; throws Failure where it cannot.
void append_json(const std::filesystem::path& file, const Record& record);

void print_heading(const std::string& title, const std::string& machine);
void print_row(const Record& record);

}  // namespace examples
