import { all } from "./index.js";

export default async function engine(input: { sources?: string[]; seed?: number; count?: number; platform?: boolean }) {
  return await all(input);
}
