// Bytes from the starter's socket, as they come.

#include "paceline/agent/starter/starter_message.h"

#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string input(paceline::fuzz::AsText(data, size));
  while (true) {
    const size_t before = input.size();
    const auto message = paceline::agent::TakeStarterMessage(&input);
    if (!message.ok() || !message->has_value()) return 0;
    paceline::fuzz::Demand(input.size() < before, "a message takes its bytes");
  }
}
