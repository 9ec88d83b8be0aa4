// SPDX-License-Identifier: Apache-2.0
// What a compiler makes of an nccl.h, as name/value pairs that two headers can be compared by. nccl_facts.cc is compiled once
// against ours and, where the machine has one, once against NVIDIA's; api_header_test.cc compares the two.
#pragma once

#include <string>
#include <vector>

struct Fact {
  std::string name;
  std::string value;
};

std::vector<Fact> facts_of_our_header();
std::vector<Fact> facts_of_nvidia_header();
