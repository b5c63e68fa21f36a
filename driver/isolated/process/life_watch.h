// The thread of a device process that looks after its parent and gives signs of
// life (Note [Signs of life]).
#pragma once

#include "core/descriptor.h"
#include "isolated/process/beat_page.h"

namespace openreg {

// Starts the thread. It ends the process when the parent ends, with no exit
// handlers, and calls the handler of StartUp::on_end_request when the parent
// asks for it. Call it once. False, with errno, if there can be no thread.
bool start_life_watch(Descriptor parent, Descriptor life, BeatPage beats);

}  // namespace openreg
