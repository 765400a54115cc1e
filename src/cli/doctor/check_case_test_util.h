#pragma once

#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "cli/doctor/finding.h"

namespace verbatim::cli::doctor {

/// A fault, made by changing the facts about a machine or a program, and the expected finding.
template <typename Facts>
struct CheckCase {
  const char* name;
  std::function<void(Facts&)> spoil;
  Verdict verdict;
  const char* subject;
  const char* text;    // A part of the finding's text.
  const char* advice;  // A part of its advice.

  friend void PrintTo(const CheckCase& shown, std::ostream* out) { *out << shown.name; }
};

template <typename Facts>
std::string name_of_case(const ::testing::TestParamInfo<CheckCase<Facts>>& info) {
  return info.param.name;
}

/// Fails unless one of the findings matches the case.
template <typename Facts>
void expect_found(const CheckCase<Facts>& expected, const Findings& findings) {
  std::string all;
  for (const Finding& finding : findings) {
    const bool is_it = finding.subject == expected.subject && finding.verdict == expected.verdict &&
                       finding.text.find(expected.text) != std::string::npos &&
                       finding.advice.find(expected.advice) != std::string::npos;
    if (is_it) return;
    all += finding.subject + ": " + finding.text + " -> " + finding.advice + "\n";
  }
  ADD_FAILURE() << all;
}

}  // namespace verbatim::cli::doctor
