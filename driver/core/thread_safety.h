// Which lock guards what, for Clang's thread-safety analysis, which `make lint`
// runs. Mutexes and locks are those of the standard library, with attributes;
// other compilers see no attributes.
//
// The attributes stand behind what they say something about:
//   int count_ GUARDED_BY(mutex_) = 0;
//   void add() REQUIRES(mutex_);
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#if defined(__clang__)
#define OPENREG_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define OPENREG_ATTRIBUTE(attribute)
#endif

// Of a member: read and written only with the lock.
#define GUARDED_BY(mutex) OPENREG_ATTRIBUTE(guarded_by(mutex))
// Of a function: the caller holds the lock, or shares it.
#define REQUIRES(mutex) OPENREG_ATTRIBUTE(requires_capability(mutex))
#define REQUIRES_SHARED(mutex) \
  OPENREG_ATTRIBUTE(requires_shared_capability(mutex))
// Of a function: it takes the lock, which its caller does not hold; gives it
// back; takes it if it returns `success`.
#define ACQUIRE(...) OPENREG_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) \
  OPENREG_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define RELEASE(...) OPENREG_ATTRIBUTE(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) \
  OPENREG_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(success) OPENREG_ATTRIBUTE(try_acquire_capability(success))
#define TRY_ACQUIRE_SHARED(success) \
  OPENREG_ATTRIBUTE(try_acquire_shared_capability(success))
// Of a class: it is a lock; it holds one for a scope.
#define CAPABILITY(name) OPENREG_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY OPENREG_ATTRIBUTE(scoped_lockable)

namespace openreg {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};
static_assert(sizeof(Mutex) == sizeof(std::mutex));

class CAPABILITY("shared mutex") SharedMutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  void lock_shared() ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() RELEASE_SHARED() { mutex_.unlock_shared(); }
  bool try_lock_shared() TRY_ACQUIRE_SHARED(true) {
    return mutex_.try_lock_shared();
  }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex until the end of the scope.
template <typename AnyMutex>
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(AnyMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  // Takes over one that the caller has locked.
  MutexLock(AnyMutex& mutex, std::adopt_lock_t /*adopt*/) REQUIRES(mutex)
      : mutex_(mutex) {}
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  AnyMutex& mutex_;
};

// Shares a mutex until the end of the scope.
class SCOPED_CAPABILITY SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) ACQUIRE_SHARED(mutex)
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  // Takes over one that the caller has locked.
  SharedLock(SharedMutex& mutex, std::adopt_lock_t /*adopt*/)
      REQUIRES_SHARED(mutex)
      : mutex_(mutex) {}
  ~SharedLock() RELEASE() { mutex_.unlock_shared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// std::condition_variable for a Mutex. A predicate that reads what the mutex
// guards says so itself: [this]() REQUIRES(mutex_) { return done_; }
class ConditionVariable {
 public:
  template <typename Predicate>
  void wait(Mutex& mutex, Predicate predicate) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock, std::move(predicate));
    lock.release();
  }
  template <typename Predicate>
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds limit,
                Predicate predicate) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool holds = changed_.wait_for(lock, limit, std::move(predicate));
    lock.release();
    return holds;
  }
  void wait_for(Mutex& mutex, std::chrono::nanoseconds limit) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait_for(lock, limit);
    lock.release();
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace openreg
