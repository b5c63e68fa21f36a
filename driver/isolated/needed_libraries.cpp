// Which libraries a shared object needs, read from its file.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "isolated/remote_module.h"

namespace openreg {

namespace {

// A file, mapped for reading, whose tables are looked at within its bounds.
class ElfFile {
 public:
  explicit ElfFile(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat status{};
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
      void* const data = mmap(nullptr, static_cast<size_t>(status.st_size),
                              PROT_READ, MAP_PRIVATE, fd, 0);
      if (data != MAP_FAILED) {
        data_ = static_cast<const char*>(data);
        size_ = static_cast<size_t>(status.st_size);
      }
    }
    close(fd);
  }
  ~ElfFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  template <typename T>
  const T* at(size_t offset, size_t count = 1) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }

  // A string that ends inside the file.
  const char* string(size_t offset) const {
    if (offset >= size_) return nullptr;
    const bool ends =
        std::memchr(data_ + offset, '\0', size_ - offset) != nullptr;
    return ends ? data_ + offset : nullptr;
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// The names in the dynamic section that `section` describes.
void read_names(const ElfFile& file, const ElfW(Shdr) & section,
                const ElfW(Shdr) & strings, std::set<std::string>* names) {
  const size_t count = section.sh_size / sizeof(ElfW(Dyn));
  const auto* const entries = file.at<ElfW(Dyn)>(section.sh_offset, count);
  for (size_t i = 0; entries != nullptr && i < count; ++i) {
    if (entries[i].d_tag != DT_NEEDED) continue;
    const char* const name =
        file.string(strings.sh_offset + entries[i].d_un.d_val);
    if (name != nullptr) names->insert(name);
  }
}

std::set<std::string> needed_names(const char* path) {
  std::set<std::string> names;
  const ElfFile file(path);
  const auto* const header = file.at<ElfW(Ehdr)>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    return names;
  }
  const size_t count = header->e_shnum;
  const auto* const sections = file.at<ElfW(Shdr)>(header->e_shoff, count);
  for (size_t i = 0; sections != nullptr && i < count; ++i) {
    const ElfW(Shdr) & section = sections[i];
    if (section.sh_type != SHT_DYNAMIC || section.sh_link >= count) continue;
    read_names(file, section, sections[section.sh_link], &names);
  }
  return names;
}

struct Search {
  std::set<std::string> names;
  std::vector<std::string> paths;
};

int look_at(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string path = info->dlpi_name;
  const size_t slash = path.rfind('/');
  if (path.empty() || path.front() != '/') return 0;
  if (search.names.count(path.substr(slash + 1)) == 1) {
    search.paths.push_back(path);
  }
  return 0;
}

}  // namespace

std::vector<std::string> loaded_needs(const char* path) {
  Search search{needed_names(path), {}};
  if (!search.names.empty()) dl_iterate_phdr(look_at, &search);
  return search.paths;
}

}  // namespace openreg
