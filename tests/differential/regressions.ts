/**
 * Seeds with a meaning.
 *
 * @module
 */

/** Seeds whose programs once differed between the software device and a GPU. Tests always run them. */
// deno-fmt-ignore
export const regressions: readonly number[] = [
  14, 37, 44, 47, 54, 72, 89, 103, 149, 171, 181, 186, 198, 204, 215, 220, 230, 243, 255, 256, 290, 304, 313, 315, 327,
  357, 360, 369, 377, 420, 429, 434, 439, 444, 455, 474, 484, 501, 509, 516, 555, 572, 580, 589, 610, 614, 640, 651,
  690, 694, 718, 722, 728, 731, 745, 766, 784, 788, 789, 839, 857, 860, 863, 864, 870, 888, 898, 899, 902, 905, 907,
  922, 937, 968, 1002, 1004, 1039, 1064, 1117, 1133, 1136, 1137, 1155, 1160, 1168, 1185, 1210, 1225, 1230, 1235, 1247,
  1276, 1295, 1308, 1313, 1334, 1335, 1346, 1350, 1388, 1389, 1401, 1408, 1429, 1436, 1449, 1450, 1478, 1479, 1486,
  1494, 1501, 1510, 1527, 1556, 1558, 1560, 1572, 1607, 1613, 1620, 1623, 1648, 1653, 1669, 1683, 1695, 1725, 1749,
  1750, 1755, 1779, 1791, 1805, 1819, 1824, 1839, 1841, 1843, 1848, 1851, 1899, 1923, 1939, 1940, 1965, 1969, 1975,
  1976, 1991, 2000, 2022, 2026, 2038, 2042, 2053, 2060, 2074, 2077, 2078, 2093, 2113, 2119, 2122, 2124, 2153, 2156,
  2159, 2267, 2273, 2330, 2331, 2332, 2379, 2395, 2399, 2411, 2419, 2457, 2488, 2499, 2525, 2535, 2539, 2541, 2553,
  2563, 2572, 2588, 2590, 2600, 2637, 2643, 2645, 2646, 2652, 2692, 2705, 2718, 2724, 2737, 2753, 2756, 2759, 2767,
  2784, 2866, 2867, 2868, 2870, 2872, 2882, 2888, 2891, 2895, 2921, 2934, 2947, 2970, 2975, 2980, 2984, 2987,
];

const floatStoredAsByte = "a register with the result of a float instruction, stored as 8 bits: the driver's " +
  "compiler converts the number to an integer instead of storing the low byte";
const floatAsShiftAmount = "a register with the result of a float instruction, as the amount of a shift: the " +
  "driver's compiler converts the number to an integer";
const absoluteOfMinimum =
  "abs.s16 of the minimum, whose negation overflows: the driver's compiler assumes that the result is not negative " +
  "in the sad or mul.hi that follows";

const guardedSum = "a guarded vadd4.add or vsub4.add: the driver's compiler writes the sum although the guard is false";

/** Seeds whose programs are not compared, with the reason. */
export const excludedSeeds: ReadonlyMap<number, string> = new Map([
  [123, floatStoredAsByte],
  [591, floatStoredAsByte],
  [2299, floatStoredAsByte],
  [2599, floatStoredAsByte],
  [2823, floatStoredAsByte],
  [207, floatAsShiftAmount],
  [939, floatAsShiftAmount],
  [978, absoluteOfMinimum],
  [1503, absoluteOfMinimum],
  [2472, absoluteOfMinimum],
  [574, "a guarded cvt.u8.f16 into 32 bits, whose guard is known to be true: upper bits of the old value remain"],
  [953, "cvt.pack.sat.u16.s32 of its own result in a loop: the driver's compiler takes negative halves for large ones"],
  [1631, "red.shared.add.noftz.bf16x2 of the constant 1: the driver's compiler adds the integer"],
  [1751, "and of a register with its own copysign: the driver's compiler drops the sign"],
  [3146, guardedSum],
  [3417, guardedSum],
  [3350, "cvt.rn.ftz.sat.f16.f32 of a zero: the driver's compiler leaves out the saturation, which removes the sign"],
  [2670, "a guarded slct.s32.s32 by the constant 0x80000000: the driver's compiler takes it for positive"],
]);
