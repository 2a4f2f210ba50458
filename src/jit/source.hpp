// What NVRTC reads, made when it is needed. For callers of jit::Compiler.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace epifuse::jit {

/// To make a text may take milliseconds, several times what a hit in a cache takes: keys are made of what the text is
/// made from.
class Source {
 public:
  /// A text, which is its own identity.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): a text is a source
  Source(std::string text) : identity_(std::move(text)) {}
  /// `text` is called when an image must be compiled, and only then. Equal identities have equal texts.
  Source(std::string identity, std::function<std::string()> text)
      : identity_(std::move(identity)), text_(std::move(text)) {}

  /// Of instructions that one architecture has and its successors lack (wgmma): compiled for sm_90a where it is to run
  /// on sm_90.
  Source&& of_one_architecture() && {
    is_of_one_architecture_ = true;
    return std::move(*this);
  }
  bool is_of_one_architecture() const noexcept { return is_of_one_architecture_; }

  const std::string& identity() const noexcept { return identity_; }
  std::string text() const { return text_ ? text_() : identity_; }

 private:
  std::string identity_;
  std::function<std::string()> text_;
  bool is_of_one_architecture_ = false;
};

}  // namespace epifuse::jit
