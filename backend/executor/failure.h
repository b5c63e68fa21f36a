// How the type of an exception travels from a kernel to the host: as the first
// word of the message.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace torch_openreg {

// "IndexError: index 5 is out of bounds …".
std::string describe_failure(const std::exception& error);

// Throws the exception that such a text describes; returns if it describes
// none.
void rethrow_failure(std::string_view text);

}  // namespace torch_openreg
