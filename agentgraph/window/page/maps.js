// Values of maps whose keys certainly exist.

/**
 * Return the value of an existing key of a map.
 *
 * @template K, V
 * @param {ReadonlyMap<K, V>} map
 * @param {K} key
 * @returns {V}
 */
export function valueOf(map, key) {
  const value = map.get(key);
  if (value === undefined) throw new Error(`the key ${JSON.stringify(key)} is missing`);
  return value;
}
