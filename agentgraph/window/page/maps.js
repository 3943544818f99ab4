// Values of maps that are there for certain.

/**
 * Return the value of a key that a map has.
 *
 * @template K, V
 * @param {ReadonlyMap<K, V>} map
 * @param {K} key
 * @returns {V}
 */
export function valueOf(map, key) {
  const value = map.get(key);
  if (value === undefined) throw new Error(`there is no ${JSON.stringify(key)}`);
  return value;
}
