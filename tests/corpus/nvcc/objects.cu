// Classes: constructors and destructors, overloaded operators, copies, members that are objects.
class Modular {
 public:
  __device__ Modular(unsigned int value = 0) : value_(value % modulus) {}
  __device__ Modular operator+(Modular other) const { return Modular(value_ + other.value_); }
  __device__ Modular operator*(const Modular& other) const {
    return Modular(static_cast<unsigned int>(static_cast<unsigned long long>(value_) * other.value_ % modulus));
  }
  __device__ Modular& operator+=(const Modular& other) { return *this = *this + other; }
  __device__ Modular operator-() const { return Modular(modulus - value_); }
  __device__ bool operator<(const Modular& other) const { return value_ < other.value_; }
  __device__ explicit operator unsigned int() const { return value_; }

 private:
  static const unsigned int modulus = 1000000007;
  unsigned int value_;
};

struct Matrix {
  Modular cells[2][2];
  __device__ Modular* operator[](int row) { return cells[row]; }
  __device__ const Modular* operator[](int row) const { return cells[row]; }
};

__device__ __noinline__ Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix product;
  for (int row = 0; row < 2; row++) {
    for (int column = 0; column < 2; column++) {
      for (int k = 0; k < 2; k++) product[row][column] += a[row][k] * b[k][column];
    }
  }
  return product;
}

class Scope {
 public:
  __device__ Scope(unsigned int& log, unsigned int mark) : log_(log), mark_(mark) { log_ = log_ * 10 + mark_; }
  __device__ ~Scope() { log_ = log_ * 10 + mark_ + 5; }

 private:
  unsigned int& log_;
  unsigned int mark_;
};

// The nth Fibonacci number as a power of a matrix.
extern "C" __global__ void objects(unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  Matrix power, base;
  power[0][0] = power[1][1] = 1;
  base[0][0] = base[0][1] = base[1][0] = 1;
  for (unsigned int n = i * i; n > 0; n /= 2) {
    if (n % 2) power = power * base;
    base = base * base;
  }
  const Modular number = power[0][1];
  out[i * 3] = static_cast<unsigned int>(number);
  out[i * 3 + 1] = static_cast<unsigned int>(-number) * 2 + (number < Modular(i * 1000000));

  unsigned int log = 0;
  for (unsigned int round = 0; round < 3; round++) {
    Scope outer(log, 1);
    if ((i >> round) & 1) continue;
    Scope inner(log, 2);
    if (i % 5 == 3) break;
  }
  out[i * 3 + 2] = log;
}
