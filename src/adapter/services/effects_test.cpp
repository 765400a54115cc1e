#include "adapter/services/effects.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim::adapter::services {
namespace {

using transport::ResponderEffect;
using transport::ResponderEffects;

/// A responder that fails when it is told of a refusal.
struct Engine {
  void on_region_error(ResponderEffects& out) {
    ++region_errors;
    out.push(transport::ResponderFailed{});
  }
  void on_receive_memory_error(ResponderEffects& out) {
    ++receive_memory_errors;
    out.push(transport::ResponderFailed{});
  }
  int region_errors = 0;
  int receive_memory_errors = 0;
};

class ResponderDrain : public testing::Test {
 protected:
  /// Drains a WRITE and the completion behind it, of which the first says `first`.
  void drain_write(Refused first) {
    ResponderEffects effects;
    effects.push(transport::PlaceWrite{});
    effects.push(transport::CompleteReceive{});
    drain(effects, engine, [&](const ResponderEffect& effect) {
      carried_out.push_back(effect.index());
      return std::holds_alternative<transport::PlaceWrite>(effect) ? first : Refused::nothing;
    });
    EXPECT_TRUE(effects.empty());
  }
  template <typename Effect>
  static std::size_t index() {
    return ResponderEffect(Effect{}).index();
  }

  Engine engine;
  std::vector<std::size_t> carried_out;
};

TEST_F(ResponderDrain, CarriesOutAllInOrder) {
  drain_write(Refused::nothing);
  EXPECT_EQ((std::vector{index<transport::PlaceWrite>(), index<transport::CompleteReceive>()}),
            carried_out);
  EXPECT_EQ(0, engine.region_errors + engine.receive_memory_errors);
}

TEST_F(ResponderDrain, WhatFollowsARefusalDoesNotHappen) {
  drain_write(Refused::region);
  EXPECT_EQ((std::vector{index<transport::PlaceWrite>(), index<transport::ResponderFailed>()}),
            carried_out);
  EXPECT_EQ(1, engine.region_errors);
  EXPECT_EQ(0, engine.receive_memory_errors);
}

TEST_F(ResponderDrain, TellsWhichMemoryRefused) {
  drain_write(Refused::receive_memory);
  EXPECT_EQ(0, engine.region_errors);
  EXPECT_EQ(1, engine.receive_memory_errors);
}

}  // namespace
}  // namespace verbatim::adapter::services
