// How the type of an exception travels from a kernel to the host: as a word in
// front of the message.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace torch_openreg {

// "IndexError: index 5 is out of bounds …"; with a `call`, on a line of its own
// after that, "  in aten::index_select(Float[3, 4], 0, Long[2])".
std::string describe_failure(const std::exception& error,
                             std::string_view call = {});

// Throws the exception that such a text describes, without the call; returns if
// it describes none. The driver's own words may stand in front.
void rethrow_failure(std::string_view text);

}  // namespace torch_openreg
