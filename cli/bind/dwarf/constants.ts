/**
 * The constants of DWARF that this reader supports: tags of entries, attributes, encodings of base types, and forms.
 *
 * @see https://dwarfstd.org/doc/DWARF5.pdf section 7.5
 * @module
 */

/** The tags of debugging information entries (`DW_TAG_...`). A tag states the kind of item that an entry describes. */
export const tags = {
  arrayType: 0x01,
  classType: 0x02,
  enumerationType: 0x04,
  formalParameter: 0x05,
  member: 0x0d,
  pointerType: 0x0f,
  referenceType: 0x10,
  compileUnit: 0x11,
  structureType: 0x13,
  subroutineType: 0x15,
  typedef: 0x16,
  unionType: 0x17,
  inheritance: 0x1c,
  subrangeType: 0x21,
  baseType: 0x24,
  constType: 0x26,
  enumerator: 0x28,
  subprogram: 0x2e,
  volatileType: 0x35,
  restrictType: 0x37,
  namespace: 0x39,
  unspecifiedType: 0x3b,
  rvalueReferenceType: 0x42,
  atomicType: 0x47,
} as const;

/** The attributes of debugging information entries (`DW_AT_...`). */
export const attributes = {
  sibling: 0x01,
  location: 0x02,
  name: 0x03,
  byteSize: 0x0b,
  bitOffset: 0x0c,
  bitSize: 0x0d,
  lowPc: 0x11,
  constValue: 0x1c,
  upperBound: 0x2f,
  abstractOrigin: 0x31,
  count: 0x37,
  dataMemberLocation: 0x38,
  declaration: 0x3c,
  encoding: 0x3e,
  external: 0x3f,
  specification: 0x47,
  type: 0x49,
  dataBitOffset: 0x6b,
  linkageName: 0x6e,
  /** The attribute for the linkage name in versions before DWARF 4. */
  mipsLinkageName: 0x2007,
  alignment: 0x88,
} as const;

/** The encodings of base types (`DW_ATE_...`). */
export const encodings = {
  boolean: 0x02,
  float: 0x04,
  signed: 0x05,
  signedCharacter: 0x06,
  unsigned: 0x07,
  unsignedCharacter: 0x08,
  utf: 0x10,
} as const;

/** The forms in which values of attributes are encoded (`DW_FORM_...`). */
export const forms = {
  address: 0x01,
  block2: 0x03,
  block4: 0x04,
  data2: 0x05,
  data4: 0x06,
  data8: 0x07,
  string: 0x08,
  block: 0x09,
  block1: 0x0a,
  data1: 0x0b,
  flag: 0x0c,
  sdata: 0x0d,
  stringOffset: 0x0e,
  udata: 0x0f,
  refAddress: 0x10,
  ref1: 0x11,
  ref2: 0x12,
  ref4: 0x13,
  ref8: 0x14,
  refUdata: 0x15,
  indirect: 0x16,
  sectionOffset: 0x17,
  expression: 0x18,
  flagPresent: 0x19,
  stringIndex: 0x1a,
  addressIndex: 0x1b,
  data16: 0x1e,
  lineStringOffset: 0x1f,
  refSignature: 0x20,
  implicitConstant: 0x21,
  locationListIndex: 0x22,
  rangeListIndex: 0x23,
  stringIndex1: 0x25,
  stringIndex2: 0x26,
  stringIndex3: 0x27,
  stringIndex4: 0x28,
  addressIndex1: 0x29,
  addressIndex2: 0x2a,
  addressIndex3: 0x2b,
  addressIndex4: 0x2c,
} as const;
